-- One messaging store. Version 7.
--
-- The id of a message is its queue's number and its counter in one integer,
--     number << 44 | counter
-- so that a queue is one run of the primary key, appended to at its end, and finding a message by
-- sequence number is one integer look-up. 2^44 messages per fragment: five years at 100,000/s.

-- Numbers of entities and queues are never given again (AUTOINCREMENT), because what was moved from
-- one queue to another is remembered by them.
CREATE TABLE entity (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Empty in entities from a time when there was only one.
    namespace  TEXT NOT NULL DEFAULT '' COLLATE NOCASE,
    -- Of a subscription, the path that leads to it.
    name       TEXT NOT NULL COLLATE NOCASE,
    kind       TEXT NOT NULL CHECK (kind IN ('queue', 'topic', 'subscription', 'namespace')),
    -- Of a subscription, the topic that it belongs to.
    topic      INTEGER REFERENCES entity (number) CHECK ((topic IS NULL) = (kind <> 'subscription')),
    version    INTEGER NOT NULL,
    -- Everything else that the entity says of itself, with the rules of a subscription.
    properties TEXT NOT NULL,
    -- The rules that a configuration last gave a subscription; since then they may have changed.
    declared_rules TEXT,
    -- Of every fragment, its store and the first of its queues there; never changes.
    places     TEXT NOT NULL,
    -- Nobody sees it any more, and its messages are being deleted.
    is_removed INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL DEFAULT 0,
    updated_at INTEGER NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
);

-- Entities as they are about to be: written in every store before they are changed in any. One
-- change at a time; none while all stores agree.
CREATE TABLE prepared (
    number INTEGER PRIMARY KEY,
    entity TEXT NOT NULL
);

-- The access rules of a namespace, with their keys. Where stores differ, the highest version counts.
CREATE TABLE access (
    namespace TEXT PRIMARY KEY COLLATE NOCASE,
    version   INTEGER NOT NULL,
    rules     TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE queue (
    number        INTEGER PRIMARY KEY AUTOINCREMENT,
    entity        INTEGER NOT NULL REFERENCES entity (number),
    fragment      INTEGER NOT NULL,
    sub_queue     INTEGER NOT NULL,
    -- Beyond this the ids of one queue would run into those of the next.
    next_counter  INTEGER NOT NULL DEFAULT 1 CHECK (next_counter <= 17592186044416),
    message_count INTEGER NOT NULL DEFAULT 0,
    -- How many of these are not for receivers: their time has not come, or they were deferred.
    scheduled_count INTEGER NOT NULL DEFAULT 0,
    deferred_count INTEGER NOT NULL DEFAULT 0,
    -- Of all sub-queues together; kept on the main one, which the quota is checked against. Those
    -- of subscriptions are kept on the main one of their topic.
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
    marks          TEXT,
    -- 1 if only who holds its session may receive it. Not so in a dead-letter queue.
    by_session     INTEGER
);

-- The rows of `message` are short and change; bodies are long and never do. Apart, a lock dirties
-- a page of eighty messages and not of fifteen.
CREATE TABLE body (
    id      INTEGER PRIMARY KEY,
    content BLOB NOT NULL
);

-- Contents that several subscriptions hold: how many still do. One that only one message ever had
-- is not here.
CREATE TABLE shared_body (
    body    INTEGER PRIMARY KEY,
    holders INTEGER NOT NULL
);

-- Messages of a subscription that nobody has looked at yet: so many rows of `message` from `first`
-- on, with bodies from `body` on.
CREATE TABLE run (
    first       INTEGER PRIMARY KEY,
    length      INTEGER NOT NULL,
    body        INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    expires_at  INTEGER,
    checksum    INTEGER NOT NULL,
    is_damaged  INTEGER NOT NULL DEFAULT 0
);

-- Sessions that have or had messages, have a state, or are locked. How long a message is held that
-- was received within one is written here alone: renewing a session changes one row. Which messages
-- those are, say `delivered` and `message`: see queries/sessions.sql.
CREATE TABLE session (
    queue         INTEGER NOT NULL,
    session_id    TEXT NOT NULL,
    -- Since when it has waited to be accepted: since its first message, or its last release.
    waiting_since INTEGER NOT NULL,
    -- Whether it may have a free message. Looked up and corrected when it is about to be accepted.
    is_ready      INTEGER NOT NULL,
    locked_until  INTEGER,
    nonce         INTEGER,
    state         BLOB,
    state_set_at  INTEGER,
    PRIMARY KEY (queue, session_id)
) WITHOUT ROWID;

-- Up to which message those of a locked session were given out, by the session's nonce. Apart from
-- `session`, whose rows may have a long state that every change would write again.
CREATE TABLE delivered (
    nonce       INTEGER PRIMARY KEY,
    until       INTEGER NOT NULL,
    -- Of a session whose lock has ended: up to which of them none is in hand any more.
    freed_until INTEGER NOT NULL DEFAULT 0
);

-- Lists of bodies that nobody holds any more: their ids one after the other, and a checksum.
CREATE TABLE litter (
    id     INTEGER PRIMARY KEY,
    bodies BLOB NOT NULL
);

-- Ids seen by duplicate detection, as they were added: one row per commit, with the digests one
-- after the other. What is looked up is in memory, made of this when the store opens.
CREATE TABLE seen (
    id      INTEGER PRIMARY KEY,
    queue   INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    digests BLOB NOT NULL
);

-- Messages that came from another queue, until they have left it there.
CREATE TABLE transfer (
    source   INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    made_at  INTEGER NOT NULL,
    PRIMARY KEY (source, sequence)
) WITHOUT ROWID;

-- Messages that a writer has brought and not published yet, many in a row: a chunk, in the store
-- that they are for. Where one content ends and the next begins, say `sizes`.
CREATE TABLE staged (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    queue    INTEGER NOT NULL,
    stage    INTEGER NOT NULL,
    ordinal  INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    size     INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    fields   TEXT NOT NULL,
    sizes    BLOB NOT NULL,
    contents BLOB NOT NULL
);

-- Stages, at the home of their writer: here before the first of their chunks, and gone after the
-- last. The states are those of model/staging.py.
CREATE TABLE stage (
    number    INTEGER PRIMARY KEY,
    queue     INTEGER NOT NULL,
    writer    TEXT NOT NULL,
    batch     INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    state     INTEGER NOT NULL,
    -- How many it has, and the fragments of its chunks, once it is complete.
    messages  INTEGER,
    fragments TEXT
);

-- Writers, at their home: which of their batches was published last, and which is being published.
CREATE TABLE writer (
    queue     INTEGER NOT NULL,
    name      TEXT NOT NULL,
    published INTEGER NOT NULL,
    batch     INTEGER,
    used_at   INTEGER NOT NULL,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;

-- Who reserves messages of a queue: only who has the token may. Another is given when another takes
-- the reader over, with all that it has reserved.
CREATE TABLE reader (
    queue     INTEGER NOT NULL,
    name      TEXT NOT NULL,
    token     TEXT NOT NULL,
    -- Of reservations, counted from 1: the last that was made, the last that is done with.
    position  INTEGER NOT NULL DEFAULT 0,
    committed INTEGER NOT NULL DEFAULT 0,
    opened_at INTEGER NOT NULL,
    -- When it was last used, give or take a few seconds.
    active_at INTEGER NOT NULL,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;

-- Messages that a reader keeps for itself. They have the state RESERVED, and the number in place of
-- a nonce. It is never given again: who reads by it while it goes finds nothing, and nothing else.
CREATE TABLE reservation (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    queue    INTEGER NOT NULL,
    reader   TEXT NOT NULL,
    position INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    bytes    INTEGER NOT NULL,
    made_at  INTEGER NOT NULL,
    UNIQUE (queue, reader, position)
);

-- How often entities or access rules were changed, where several front ends share the store: one row.
CREATE TABLE generation (
    id     INTEGER PRIMARY KEY,
    number INTEGER NOT NULL
);

-- When entities were last used, give or take some, where several front ends share the store.
CREATE TABLE use (
    entity  INTEGER PRIMARY KEY,
    used_at INTEGER NOT NULL
);

CREATE INDEX message_free ON message (queue)
    WHERE state = 0 AND locked_until IS NULL AND by_session IS NULL;
CREATE INDEX message_locked ON message (locked_until) WHERE locked_until IS NOT NULL;
CREATE INDEX message_expiring ON message (expires_at)
    WHERE expires_at IS NOT NULL AND locked_until IS NULL AND state = 0;
-- A scheduled message counts as enqueued at the time that it is scheduled for.
CREATE INDEX message_scheduled ON message (enqueued_at) WHERE state = 2;
-- Of a session, what looks free, and the others. Two, so that a message is in one of them.
CREATE INDEX message_session_free ON message (queue, session_id)
    WHERE session_id IS NOT NULL AND state = 0 AND locked_until IS NULL;
CREATE INDEX message_session_rest ON message (queue, session_id)
    WHERE session_id IS NOT NULL AND (state <> 0 OR locked_until IS NOT NULL);
-- What came back while its session is held, and what is reserved.
CREATE INDEX message_nonce ON message (nonce) WHERE nonce IS NOT NULL AND locked_until IS NULL;
CREATE INDEX session_waiting ON session (queue, waiting_since)
    WHERE is_ready = 1 AND nonce IS NULL;
CREATE INDEX session_locked ON session (locked_until) WHERE locked_until IS NOT NULL;
CREATE UNIQUE INDEX session_held ON session (nonce) WHERE nonce IS NOT NULL;
CREATE INDEX session_changed ON session (queue, state_set_at) WHERE state_set_at IS NOT NULL;
CREATE INDEX run_expiring ON run (expires_at) WHERE expires_at IS NOT NULL AND is_damaged = 0;
CREATE INDEX seen_age ON seen (queue, seen_at);
CREATE INDEX staged_order ON staged (queue, stage, ordinal);
CREATE INDEX staged_size ON staged (queue, size);
CREATE INDEX stage_of_writer ON stage (queue, writer, batch);
CREATE INDEX stage_age ON stage (opened_at) WHERE state < 2;
CREATE INDEX stage_stale ON stage (state) WHERE state = 3;
CREATE INDEX writer_deciding ON writer (queue) WHERE batch IS NOT NULL;
CREATE INDEX writer_age ON writer (used_at) WHERE batch IS NULL;
