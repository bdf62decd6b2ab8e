-- One messaging store. Version 1.
--
-- The id of a message is its queue's number and its counter in one integer,
--     number << 44 | counter
-- so that a queue is one run of the primary key, appended to at its end, and finding a message by
-- sequence number is one integer look-up. 2^44 messages per fragment: five years at 100,000/s.

CREATE TABLE entity (
    number     INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE COLLATE NOCASE,
    version    INTEGER NOT NULL,
    properties TEXT NOT NULL,
    -- Of every fragment, its store and the first of its queues there; never changes.
    places     TEXT NOT NULL
);

CREATE TABLE queue (
    number        INTEGER PRIMARY KEY,
    entity        INTEGER NOT NULL REFERENCES entity (number),
    fragment      INTEGER NOT NULL,
    sub_queue     INTEGER NOT NULL,
    -- Beyond this the ids of one queue would run into those of the next.
    next_counter  INTEGER NOT NULL DEFAULT 1 CHECK (next_counter <= 17592186044416),
    message_count INTEGER NOT NULL DEFAULT 0,
    -- Of all sub-queues together; kept on the main one, which the quota is checked against.
    message_bytes INTEGER NOT NULL DEFAULT 0,
    UNIQUE (entity, fragment, sub_queue)
);

CREATE TABLE message (
    id             INTEGER PRIMARY KEY,
    queue          INTEGER NOT NULL,
    state          INTEGER NOT NULL,
    delivery_count INTEGER NOT NULL,
    enqueued_at    INTEGER NOT NULL,
    expires_at     INTEGER,
    locked_until   INTEGER,
    nonce          INTEGER,
    body           INTEGER NOT NULL,
    size           INTEGER NOT NULL,
    session_id     TEXT,
    partition_key  TEXT,
    marks          TEXT
);

-- The rows of `message` are short and change; bodies are long and never do. Apart, a lock dirties
-- a page of eighty messages and not of fifteen.
CREATE TABLE body (
    id      INTEGER PRIMARY KEY,
    content BLOB NOT NULL
);

CREATE INDEX message_free ON message (queue) WHERE state = 0 AND locked_until IS NULL;
CREATE INDEX message_locked ON message (locked_until) WHERE locked_until IS NOT NULL;
CREATE INDEX message_expiring ON message (expires_at)
    WHERE expires_at IS NOT NULL AND locked_until IS NULL AND state = 0;
