-- One messaging store in the schema `bendybus` of a PostgreSQL database. Version 1;
-- migrating.py has what came later.
--
-- The tables are those of ../sqlite/schema.sql, where the comments are that say what they mean.
-- What differs:
-- - Every number is a BIGINT, and flags are 0 or 1 as there, so that the statements of both engines
--   differ only where the engines do.
-- - Texts compare by their bytes (COLLATE "C"), as in SQLite; lower() of such a text changes ASCII
--   alone, as NOCASE does.
-- - An index ends with the primary key where SQLite adds it by itself: what is read in that order
--   needs no sort.
-- - No foreign keys: SQLite's are not enforced either, and the catalog's own checks tell more.
-- - Columns that every row has come first, the long ones last.

CREATE TABLE entity (
    number     BIGINT PRIMARY KEY,
    topic      BIGINT CHECK ((topic IS NULL) = (kind <> 'subscription')),
    version    BIGINT NOT NULL,
    is_removed BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL DEFAULT 0,
    updated_at BIGINT NOT NULL DEFAULT 0,
    namespace  TEXT COLLATE "C" NOT NULL DEFAULT '',
    name       TEXT COLLATE "C" NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL CHECK (kind IN ('queue', 'topic', 'subscription')),
    properties TEXT COLLATE "C" NOT NULL,
    declared_rules TEXT COLLATE "C",
    places     TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX entity_name ON entity (lower(namespace), lower(name));

CREATE TABLE prepared (
    number BIGINT PRIMARY KEY,
    entity TEXT COLLATE "C" NOT NULL
);

CREATE TABLE access (
    version   BIGINT NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL,
    rules     TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX access_namespace ON access (lower(namespace));

-- The highest number that was ever given to each: none is given again.
CREATE TABLE number_given (
    kind    TEXT COLLATE "C" PRIMARY KEY,
    highest BIGINT NOT NULL
);
INSERT INTO number_given (kind, highest) VALUES ('entity', 0), ('queue', 0);

-- Every commit changes some of these few rows. Pages are left half empty, so that the next version
-- of a row lies beside it, and no index is touched.
CREATE TABLE queue (
    number        BIGINT PRIMARY KEY,
    entity        BIGINT NOT NULL,
    fragment      BIGINT NOT NULL,
    sub_queue     BIGINT NOT NULL,
    next_counter  BIGINT NOT NULL DEFAULT 1 CHECK (next_counter <= 17592186044416),
    message_count BIGINT NOT NULL DEFAULT 0,
    scheduled_count BIGINT NOT NULL DEFAULT 0,
    deferred_count BIGINT NOT NULL DEFAULT 0,
    message_bytes BIGINT NOT NULL DEFAULT 0,
    -- No message before this one is free. See queries/messages.sql.
    free_from     BIGINT NOT NULL DEFAULT 0,
    UNIQUE (entity, fragment, sub_queue)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- A message comes, is locked and goes: three changes, and all that it leaves behind is dead rows.
-- They are swept away when a few thousand have gathered and not, as by default, a fifth of the table.
CREATE TABLE message (
    id             BIGINT PRIMARY KEY,
    queue          BIGINT NOT NULL,
    state          BIGINT NOT NULL,
    delivery_count BIGINT NOT NULL,
    enqueued_at    BIGINT NOT NULL,
    body           BIGINT NOT NULL,
    size           BIGINT NOT NULL,
    expires_at     BIGINT,
    locked_until   BIGINT,
    nonce          BIGINT,
    by_session     BIGINT,
    session_id     TEXT COLLATE "C",
    partition_key  TEXT COLLATE "C",
    marks          TEXT COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);

-- Contents are not compressed: many are already, and the others are short.
CREATE TABLE body (
    id      BIGINT PRIMARY KEY,
    content BYTEA NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0,
        toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_cost_delay = 0);
ALTER TABLE body ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE TABLE shared_body (
    body    BIGINT PRIMARY KEY,
    holders BIGINT NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);

CREATE TABLE run (
    first       BIGINT PRIMARY KEY,
    length      BIGINT NOT NULL,
    body        BIGINT NOT NULL,
    enqueued_at BIGINT NOT NULL,
    expires_at  BIGINT,
    checksum    BIGINT NOT NULL,
    is_damaged  BIGINT NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE TABLE session (
    queue         BIGINT NOT NULL,
    waiting_since BIGINT NOT NULL,
    is_ready      BIGINT NOT NULL,
    locked_until  BIGINT,
    nonce         BIGINT,
    state_set_at  BIGINT,
    session_id    TEXT COLLATE "C" NOT NULL,
    state         BYTEA,
    PRIMARY KEY (queue, session_id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE TABLE delivered (
    nonce       BIGINT PRIMARY KEY,
    until       BIGINT NOT NULL,
    freed_until BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE litter (
    id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bodies BYTEA NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Ids that duplicate detection saw, looked up here: no front end knows what the others have seen.
CREATE TABLE seen_id (
    queue   BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    digest  BYTEA NOT NULL,
    PRIMARY KEY (queue, digest)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);

CREATE TABLE transfer (
    source   BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    made_at  BIGINT NOT NULL,
    PRIMARY KEY (source, sequence)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE TABLE staged (
    id       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue    BIGINT NOT NULL,
    stage    BIGINT NOT NULL,
    ordinal  BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    fields   TEXT COLLATE "C" NOT NULL,
    sizes    BYTEA NOT NULL,
    contents BYTEA NOT NULL
);
ALTER TABLE staged ALTER COLUMN contents SET STORAGE EXTERNAL;

CREATE TABLE stage (
    number    BIGINT PRIMARY KEY,
    queue     BIGINT NOT NULL,
    batch     BIGINT NOT NULL,
    opened_at BIGINT NOT NULL,
    state     BIGINT NOT NULL,
    messages  BIGINT,
    writer    TEXT COLLATE "C" NOT NULL,
    fragments TEXT COLLATE "C"
);

CREATE TABLE writer (
    queue     BIGINT NOT NULL,
    published BIGINT NOT NULL,
    batch     BIGINT,
    used_at   BIGINT NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, name)
);

CREATE TABLE reader (
    queue     BIGINT NOT NULL,
    position  BIGINT NOT NULL DEFAULT 0,
    committed BIGINT NOT NULL DEFAULT 0,
    opened_at BIGINT NOT NULL,
    active_at BIGINT NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    token     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, name)
) WITH (fillfactor = 50);

CREATE TABLE reservation (
    number   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue    BIGINT NOT NULL,
    position BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    bytes    BIGINT NOT NULL,
    made_at  BIGINT NOT NULL,
    reader   TEXT COLLATE "C" NOT NULL,
    UNIQUE (queue, reader, position)
);

-- What only stores that many front ends share have.

-- Whose store this is: one row once it is claimed. Of which cluster, and which of how many.
CREATE TABLE identity (
    is_only BIGINT PRIMARY KEY DEFAULT 1 CHECK (is_only = 1),
    cluster TEXT COLLATE "C" NOT NULL,
    number  BIGINT NOT NULL,
    count   BIGINT NOT NULL,
    -- JSON: the names of the namespaces that the cluster serves.
    namespaces TEXT COLLATE "C" NOT NULL,
    -- Where the store is now, if it was moved away from here.
    moved_to TEXT COLLATE "C"
);

-- How often the catalog was changed, by anybody: whoever knows another figure reads it anew.
CREATE TABLE generation (
    is_only BIGINT PRIMARY KEY DEFAULT 1 CHECK (is_only = 1),
    number  BIGINT NOT NULL
) WITH (fillfactor = 50);
INSERT INTO generation (number) VALUES (1);

CREATE FUNCTION note_catalog_change() RETURNS trigger LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE generation SET number = number + 1;
    RETURN NULL;
END $$;
CREATE TRIGGER entity_changed AFTER INSERT OR UPDATE OR DELETE ON entity
    FOR EACH STATEMENT EXECUTE FUNCTION note_catalog_change();
CREATE TRIGGER prepared_changed AFTER INSERT OR UPDATE OR DELETE ON prepared
    FOR EACH STATEMENT EXECUTE FUNCTION note_catalog_change();
CREATE TRIGGER access_changed AFTER INSERT OR UPDATE OR DELETE ON access
    FOR EACH STATEMENT EXECUTE FUNCTION note_catalog_change();

-- When entities were last used, give or take: signs that front ends give each other.
CREATE TABLE use (
    entity  BIGINT PRIMARY KEY,
    used_at BIGINT NOT NULL
) WITH (fillfactor = 50);

CREATE INDEX message_free ON message (queue, id)
    WHERE state = 0 AND locked_until IS NULL AND by_session IS NULL;
CREATE INDEX message_locked ON message (locked_until, id) WHERE locked_until IS NOT NULL;
CREATE INDEX message_expiring ON message (expires_at, id)
    WHERE expires_at IS NOT NULL AND locked_until IS NULL AND state = 0;
CREATE INDEX message_scheduled ON message (enqueued_at, id) WHERE state = 2;
CREATE INDEX message_session_free ON message (queue, session_id, id)
    WHERE session_id IS NOT NULL AND state = 0 AND locked_until IS NULL;
CREATE INDEX message_session_rest ON message (queue, session_id, id)
    WHERE session_id IS NOT NULL AND (state <> 0 OR locked_until IS NOT NULL);
CREATE INDEX message_nonce ON message (nonce, id) WHERE nonce IS NOT NULL AND locked_until IS NULL;
CREATE INDEX session_waiting ON session (queue, waiting_since, session_id)
    WHERE is_ready = 1 AND nonce IS NULL;
CREATE INDEX session_locked ON session (locked_until) WHERE locked_until IS NOT NULL;
CREATE UNIQUE INDEX session_held ON session (nonce) WHERE nonce IS NOT NULL;
CREATE INDEX session_changed ON session (queue, state_set_at, session_id)
    WHERE state_set_at IS NOT NULL;
CREATE INDEX run_expiring ON run (expires_at, first) WHERE expires_at IS NOT NULL AND is_damaged = 0;
CREATE INDEX seen_id_age ON seen_id (queue, seen_at, digest);
CREATE INDEX staged_order ON staged (queue, stage, ordinal);
CREATE INDEX staged_size ON staged (queue, size);
CREATE INDEX stage_of_writer ON stage (queue, writer, batch);
CREATE INDEX stage_age ON stage (opened_at) WHERE state < 2;
CREATE INDEX stage_stale ON stage (state) WHERE state = 3;
CREATE INDEX writer_deciding ON writer (queue) WHERE batch IS NOT NULL;
CREATE INDEX writer_age ON writer (used_at) WHERE batch IS NULL;
