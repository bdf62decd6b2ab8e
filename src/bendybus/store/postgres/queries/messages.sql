-- Every statement the store makes, by name. The names, the parameters and what comes back are those
-- of ../../sqlite/queries: each takes its whole batch in one step and returns one row.
--
-- No plan may depend on statistics, which say nothing of a table that was just emptied and is being
-- filled (see ../planning.py). So nothing is left for the planner to choose:
-- - What is looked up for each of many is a LATERAL subquery with OFFSET 0: no other order of
--   joining is possible.
-- - Messages that are named by their ids are fenced off by OFFSET 0, too, where an index leads to
--   something else that is asked of them.
-- - What is read in the order of an index names all columns of that order, the first as a range:
--   were it an equality, the order would be that of the primary key, too, and a plan might walk
--   over every message of the store.
-- - Whether a session has a message is asked for as a single value, with LIMIT 1. EXISTS may be made
--   a join, or has a second plan beside the first; either looks at all messages at once.
--
-- What was locked or deleted stays in an index until the next vacuum, and who looks for the oldest
-- free message would walk over all of it each time. So a queue remembers from which id on to look,
-- `free_from`: none before it is free. Who finds the first far behind it raises it; who frees
-- messages lowers it.

-- name: reserve_counters
UPDATE queue
   SET next_counter = next_counter + $2::bigint, message_count = message_count + $2::bigint,
       message_bytes = message_bytes + $3::bigint
 WHERE number = $1::bigint AND message_bytes + $3::bigint <= $4::bigint
RETURNING next_counter - $2::bigint;

-- name: append_bodies
INSERT INTO body (id, content)
SELECT $1::bigint + place - 1, content
  FROM unnest($2::bytea[]) WITH ORDINALITY AS given (content, place);

-- name: append_messages
INSERT INTO message (id, queue, state, delivery_count, enqueued_at, body, size)
SELECT $1::bigint + place - 1, $2::bigint, 0, 0, $3::bigint, $1::bigint + place - 1,
       octet_length(content)
  FROM unnest($4::bytea[]) WITH ORDINALITY AS given (content, place);

-- name: append_packed_bodies
INSERT INTO body (id, content)
SELECT $1::bigint + place - 1,
       substring($3::bytea, (at >> 32)::int + 1, (at & 4294967295)::int)
       || substring($4::bytea, 4 * place::int - 3, 4)
  FROM unnest($2::bigint[]) WITH ORDINALITY AS given (at, place);

-- name: append_packed
INSERT INTO message (id, queue, state, delivery_count, enqueued_at, body, size, expires_at,
                     by_session)
SELECT $1::bigint + place - 1, $2::bigint, 0, 0, $3::bigint, $1::bigint + place - 1,
       (at & 4294967295) + 4, $4::bigint, $5::bigint
  FROM unnest($6::bigint[]) WITH ORDINALITY AS given (at, place);

-- name: append_packed_keyed
INSERT INTO message (id, queue, state, delivery_count, enqueued_at, body, size, expires_at,
                     by_session, session_id, partition_key)
SELECT $1::bigint + place - 1, $2::bigint, 0, 0, $3::bigint, b.id, octet_length(b.content),
       $4::bigint, $5::bigint, CASE WHEN $7::boolean THEN key END, CASE WHEN $8::boolean THEN key END
  FROM unnest($6::text[]) WITH ORDINALITY AS given (key, place)
 CROSS JOIN LATERAL (SELECT * FROM body WHERE id = $1::bigint + place - 1 OFFSET 0) AS b;

-- name: append_messages_with_fields
INSERT INTO message
       (id, queue, state, delivery_count, enqueued_at, body, size,
        expires_at, session_id, partition_key, marks, by_session)
SELECT $1::bigint + place - 1, $2::bigint, CASE WHEN value ->> 4 IS NULL THEN 0 ELSE 2 END, 0,
       coalesce((value ->> 4)::bigint, $3::bigint), $1::bigint + place - 1,
       (value ->> 0)::bigint, (value ->> 1)::bigint, value ->> 2, value ->> 3, value ->> 5,
       $5::bigint
  FROM jsonb_array_elements($4::jsonb) WITH ORDINALITY AS given (value, place);

-- name: find_free
SELECT coalesce(json_agg(json_build_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key, marks,
           body, size) ORDER BY id), '[]')
  FROM (SELECT * FROM message
         WHERE (queue, id) >= ($1::bigint, (SELECT free_from FROM queue WHERE number = $1::bigint))
           AND queue <= $1::bigint
           AND state = 0 AND locked_until IS NULL AND by_session IS NULL
           AND (expires_at IS NULL OR expires_at > $2::bigint)
         ORDER BY queue, id LIMIT $3::bigint) AS found;

-- name: find_free_plain
WITH found AS MATERIALIZED (
       SELECT * FROM message
        WHERE (queue, id) >= ($1::bigint, (SELECT free_from FROM queue WHERE number = $1::bigint))
          AND queue <= $1::bigint
          AND state = 0 AND locked_until IS NULL AND by_session IS NULL
          AND (expires_at IS NULL OR expires_at > $2::bigint)
        ORDER BY queue, id LIMIT $3::bigint),
     raised AS (
       UPDATE queue
          SET free_from = coalesce((SELECT min(id) FROM found), (number << 44) + next_counter)
        WHERE number = $1::bigint
          AND coalesce((SELECT min(id) FROM found), (number << 44) + next_counter)
              > free_from + 1000)
-- In the order in which they were found; joined as text, in half the time of json_agg.
SELECT '[' || coalesce(string_agg(id::text, ','), '') || ']',
       '[' || coalesce(string_agg(enqueued_at::text, ','), '') || ']',
       '[' || coalesce(string_agg(delivery_count::text, ','), '') || ']',
       '[' || coalesce(string_agg(body::text, ','), '') || ']',
       coalesce(sum(size), 0)::bigint,
       count(expires_at) + count(session_id) + count(partition_key) + count(marks)
  FROM found;

-- name: read_bodies
SELECT coalesce(json_agg(octet_length(b.content) ORDER BY place), '[]'),
       string_agg(b.content, ''::bytea ORDER BY place)
  FROM unnest($1::bigint[]) WITH ORDINALITY AS given (id, place)
 CROSS JOIN LATERAL (SELECT content FROM body WHERE id = given.id OFFSET 0) AS b;

-- name: lock_messages
UPDATE message SET locked_until = $2::bigint, nonce = $3::bigint WHERE id = ANY ($1::bigint[]);

-- name: defer_messages
UPDATE message SET state = 1, locked_until = NULL, nonce = NULL WHERE id = ANY ($1::bigint[]);

-- name: find_deferred
SELECT coalesce(json_agg(json_build_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key, marks,
           body, size,
           state, $2::bigint, $3::bigint) ORDER BY id), '[]')
  FROM (SELECT * FROM message WHERE id = ANY ($1::bigint[]) OFFSET 0) AS named
 WHERE state = 1 AND locked_until IS NULL
   AND ($4::text IS NULL OR session_id = $4::text);

-- name: set_aside_damaged
UPDATE message SET state = 9, locked_until = NULL, nonce = NULL WHERE id = ANY ($1::bigint[]);

-- name: find_guarded
SELECT count(*), coalesce(sum(size), 0)::bigint, coalesce(json_agg(id ORDER BY id), '[]'),
       coalesce(json_agg(body ORDER BY id) FILTER (WHERE body <> id), '[]'),
       count(*) FILTER (WHERE state <> 0)
  FROM (SELECT * FROM message WHERE id = ANY ($1::bigint[]) OFFSET 0) AS named
 WHERE CASE $2::text
            WHEN 'HELD' THEN nonce = $3::bigint AND locked_until > $4::bigint
            WHEN 'LAPSED' THEN nonce = $3::bigint AND locked_until <= $4::bigint
            WHEN 'SCHEDULED' THEN state = 2 AND enqueued_at > $4::bigint
            WHEN 'DUE' THEN state = 2 AND enqueued_at <= $4::bigint
            WHEN 'UNTOUCHED' THEN state = 0 AND locked_until IS NULL AND delivery_count = $3::bigint
            WHEN 'SET_ASIDE' THEN state = 1 AND locked_until IS NULL
            WHEN 'THERE' THEN state <> 3
            ELSE locked_until IS NULL AND expires_at <= $4::bigint AND state NOT IN (3, 9) END;

-- name: bodies_of
SELECT coalesce(json_agg(body ORDER BY id), '[]')
  FROM message WHERE id = ANY ($1::bigint[]);

-- name: remove_messages
DELETE FROM message WHERE id = ANY ($1::bigint[]);

-- name: remove_bodies
DELETE FROM body WHERE id = ANY ($1::bigint[]);

-- name: count_down
UPDATE queue SET message_count = message_count - $2::bigint WHERE number = $1::bigint;

-- name: bytes_down
UPDATE queue SET message_bytes = message_bytes - $2::bigint WHERE number = $1::bigint;

-- name: unlock_messages
WITH lowered AS (
       UPDATE queue SET free_from = (SELECT min(id) FROM unnest($1::bigint[]) AS freed (id))
        WHERE number = ($1::bigint[])[1] >> 44
          AND free_from > (SELECT min(id) FROM unnest($1::bigint[]) AS freed (id)))
UPDATE message
   SET locked_until = NULL, nonce = NULL, delivery_count = delivery_count + $2::bigint
 WHERE id = ANY ($1::bigint[]);

-- name: renew_messages
UPDATE message SET locked_until = $2::bigint WHERE id = ANY ($1::bigint[]);

-- name: rewrite_marks
UPDATE message SET marks = $2::text WHERE id = $1::bigint;

-- name: move_messages
-- A row with another id is another row here in any case.
WITH given AS MATERIALIZED (
       SELECT (value ->> 0)::bigint AS id, value ->> 1 AS marks, place
         FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY AS moved (value, place)),
     gone AS (DELETE FROM message WHERE id = ANY (ARRAY(SELECT id FROM given)))
INSERT INTO message
       (id, queue, state, delivery_count, enqueued_at, body, size,
        session_id, partition_key, marks)
SELECT $2::bigint + place - 1, $3::bigint, 0, m.delivery_count + $4::bigint, m.enqueued_at, m.body,
       m.size, m.session_id, m.partition_key, given.marks
  FROM given CROSS JOIN LATERAL (SELECT * FROM message WHERE id = given.id OFFSET 0) AS m;

-- name: find_locked
SELECT coalesce(json_agg(json_build_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key, marks,
           body, size,
           state, locked_until, nonce) ORDER BY id), '[]')
  FROM (SELECT * FROM message WHERE id = ANY ($1::bigint[]) OFFSET 0) AS named
 WHERE locked_until > $2::bigint;

-- name: browse
-- A lock on a message, or the one of its session (sessions.sql).
SELECT coalesce(json_agg(json_build_array(
           found.id, enqueued_at, delivery_count, expires_at, found.session_id, partition_key,
           marks, body, size, found.state,
           CASE WHEN found.locked_until < 4611686018427387904 THEN found.locked_until
                ELSE s.locked_until END,
           CASE WHEN found.locked_until < 4611686018427387904 THEN found.nonce
                ELSE s.nonce END) ORDER BY found.id), '[]')
  FROM (SELECT * FROM message WHERE id >= $1::bigint AND id < $2::bigint AND state <> 9
         ORDER BY id LIMIT $3::bigint) AS found
  LEFT JOIN LATERAL (
       SELECT locked_until, nonce FROM session
        WHERE queue = found.queue AND session_id = found.session_id
          AND CASE WHEN found.locked_until IS NOT NULL THEN nonce = found.nonce
                   ELSE found.state = 0 AND nonce IS DISTINCT FROM found.nonce
                        AND found.id <= (SELECT d.until FROM delivered d
                                          WHERE d.nonce = session.nonce) END
       OFFSET 0) AS s ON true;

-- name: ids_from
SELECT coalesce(json_agg(id ORDER BY id), '[]')
  FROM (SELECT id FROM message
         WHERE id >= $1::bigint AND id < $2::bigint AND state IS DISTINCT FROM 9
         ORDER BY id LIMIT $3::bigint) AS found;

-- name: counts
SELECT message_count, message_bytes FROM queue WHERE number = $1::bigint;

-- name: find
SELECT coalesce(json_agg(json_build_array(
           found.id, enqueued_at, delivery_count, expires_at, found.session_id, partition_key,
           marks, body, size, found.state,
           CASE WHEN found.locked_until < 4611686018427387904 THEN found.locked_until
                ELSE s.locked_until END,
           CASE WHEN found.locked_until < 4611686018427387904 THEN found.nonce
                ELSE s.nonce END) ORDER BY found.id), '[]')
  FROM (SELECT * FROM message WHERE id = ANY ($1::bigint[]) AND state <> 9) AS found
  LEFT JOIN LATERAL (
       SELECT locked_until, nonce FROM session
        WHERE queue = found.queue AND session_id = found.session_id
          AND CASE WHEN found.locked_until IS NOT NULL THEN nonce = found.nonce
                   ELSE found.state = 0 AND nonce IS DISTINCT FROM found.nonce
                        AND found.id <= (SELECT d.until FROM delivered d
                                          WHERE d.nonce = session.nonce) END
       OFFSET 0) AS s ON true;

-- name: make_indexes_anew
REINDEX TABLE message;
