-- Readers, and the messages that they keep for themselves. See messages.sql for what all keep to.

-- name: find_reader
SELECT token, position, committed, opened_at, active_at FROM reader
 WHERE queue = $1::bigint AND name = $2::text;

-- name: count_readers
SELECT count(*) FROM reader WHERE queue = $1::bigint;

-- name: open_reader
INSERT INTO reader (queue, name, token, opened_at, active_at)
VALUES ($1::bigint, $2::text, $3::text, $4::bigint, $5::bigint)
ON CONFLICT (queue, name) DO UPDATE
   SET token = $3::text, opened_at = $4::bigint, active_at = $5::bigint;

-- name: note_active
UPDATE reader SET active_at = $3::bigint WHERE queue = $1::bigint AND name = $2::text;

-- name: note_position
UPDATE reader SET position = $3::bigint, active_at = $4::bigint
 WHERE queue = $1::bigint AND name = $2::text;

-- name: note_committed
UPDATE reader SET committed = $3::bigint, active_at = $4::bigint
 WHERE queue = $1::bigint AND name = $2::text;

-- name: forget_reader
DELETE FROM reader WHERE queue = $1::bigint AND name = $2::text;

-- name: reservations
SELECT coalesce(json_agg(json_build_array(number, position, messages, bytes, made_at)), '[]')
  FROM (SELECT * FROM reservation
         WHERE queue = $1::bigint AND reader = $2::text
           AND position > $3::bigint AND position <= $4::bigint
         ORDER BY position LIMIT $5::bigint) AS found;

-- name: last_reservation
SELECT number, position, messages, bytes FROM reservation
 WHERE queue = $1::bigint AND reader = $2::text ORDER BY position DESC LIMIT 1;

-- name: make_reservation
INSERT INTO reservation (queue, reader, position, messages, bytes, made_at)
VALUES ($1::bigint, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::bigint)
RETURNING number;

-- name: forget_reservation
DELETE FROM reservation WHERE number = $1::bigint;

-- name: find_reservable
SELECT coalesce(json_agg(id), '[]'), coalesce(json_agg(size), '[]')
  FROM (SELECT id, size FROM message
         WHERE (queue, id) >= ($1::bigint, (SELECT free_from FROM queue WHERE number = $1::bigint))
           AND queue <= $1::bigint
           AND state = 0 AND locked_until IS NULL AND by_session IS NULL
           AND id < $4::bigint AND (expires_at IS NULL OR expires_at > $2::bigint)
         ORDER BY queue, id LIMIT $3::bigint) AS free;

-- name: find_reservable_of_sessions
-- Session after session as they wait to be accepted, each from its oldest message on. The sessions
-- come third, also those that have nothing. A lateral join goes through them in their order, and
-- ends when there is enough; to sort would mean to read all messages of all of them first.
SELECT coalesce(json_agg(id) FILTER (WHERE id IS NOT NULL), '[]'),
       coalesce(json_agg(size) FILTER (WHERE id IS NOT NULL), '[]'),
       coalesce(json_agg(session_id), '[]')
  FROM (SELECT m.id, m.size, waiting.session_id
          FROM (SELECT session_id FROM session
                 WHERE queue = $1::bigint AND is_ready = 1 AND nonce IS NULL
                 ORDER BY waiting_since, session_id LIMIT $3::bigint OFFSET $5::bigint) AS waiting
          LEFT JOIN LATERAL
               (SELECT id, size FROM message
                 WHERE queue = $1::bigint AND (session_id, id) >= (waiting.session_id, 0)
                   AND (session_id, id) < (waiting.session_id, $4::bigint)
                   AND session_id IS NOT NULL AND state = 0 AND locked_until IS NULL
                   AND (expires_at IS NULL OR expires_at > $2::bigint)
                 ORDER BY session_id, id LIMIT $3::bigint) AS m ON true
         LIMIT $3::bigint) AS found;

-- name: find_chosen
SELECT coalesce(json_agg(id), '[]'), coalesce(json_agg(size), '[]')
  FROM (SELECT m.id, m.size
          FROM (SELECT * FROM message WHERE id = ANY ($1::bigint[]) ORDER BY id OFFSET 0) AS m
         WHERE m.state = 0 AND m.locked_until IS NULL
           AND (m.expires_at IS NULL OR m.expires_at > $2::bigint)
           AND (m.by_session IS NULL
                OR (SELECT s.nonce FROM session s
                     WHERE s.queue = m.queue AND s.session_id = m.session_id) IS NULL)
        OFFSET 0) AS free;

-- name: reserve_messages
UPDATE message SET state = 3, nonce = $2::bigint WHERE id = ANY ($1::bigint[]);

-- name: find_reserved
SELECT coalesce(json_agg(id), '[]'), coalesce(json_agg(body), '[]'),
       coalesce(sum(size), 0)::bigint
  FROM (SELECT id, body, size FROM message
         WHERE nonce >= $1::bigint AND nonce <= $1::bigint AND state = 3 AND locked_until IS NULL
         ORDER BY nonce, id) AS reserved;

-- name: read_reserved
SELECT coalesce(json_agg(json_build_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key, marks,
           body, size, state, NULL, NULL)), '[]')
  FROM (SELECT * FROM message
         WHERE (nonce, id) >= ($1::bigint, $2::bigint) AND nonce <= $1::bigint
           AND state = 3 AND locked_until IS NULL
         ORDER BY nonce, id LIMIT $3::bigint) AS reserved;

-- name: free_reserved
WITH lowered AS (
       UPDATE queue SET free_from = (SELECT min(id) FROM unnest($1::bigint[]) AS freed (id))
        WHERE number = ($1::bigint[])[1] >> 44
          AND free_from > (SELECT min(id) FROM unnest($1::bigint[]) AS freed (id)))
UPDATE message SET state = 0, nonce = NULL WHERE id = ANY ($1::bigint[]);

-- name: free_reserved_of_sessions
-- Of a session that is held, what lies before the last one given out: it comes next.
UPDATE message
   SET state = 0,
       nonce = (SELECT d.nonce FROM delivered d
                 WHERE d.until >= message.id
                   AND d.nonce = (SELECT s.nonce FROM session s
                                   WHERE s.queue = message.queue
                                     AND s.session_id = message.session_id))
 WHERE id = ANY ($1::bigint[]);

-- name: note_sessions_freed
INSERT INTO session (queue, session_id, waiting_since, is_ready)
SELECT DISTINCT m.queue, m.session_id, $2::bigint, 1
  FROM message m
 WHERE m.id = ANY ($1::bigint[]) AND m.session_id IS NOT NULL
   AND coalesce((SELECT s.is_ready FROM session s
                  WHERE s.queue = m.queue AND s.session_id = m.session_id), 0) = 0
ON CONFLICT (queue, session_id) DO UPDATE SET is_ready = 1, waiting_since = $2::bigint;

-- name: note_sessions_emptied
UPDATE session SET is_ready = 0
 WHERE ctid = ANY (ARRAY (
           SELECT s.ctid
             FROM jsonb_array_elements_text($2::jsonb) AS named (session_id)
            CROSS JOIN LATERAL
                  (SELECT ctid FROM session
                    WHERE queue = $1::bigint AND session_id = named.session_id OFFSET 0) AS s))
   AND (SELECT 1 FROM message m
         WHERE m.queue = $1::bigint AND m.session_id = session.session_id
           AND m.state = 0 AND m.locked_until IS NULL
           AND (m.expires_at IS NULL OR m.expires_at > $3::bigint)
         LIMIT 1) IS NULL;

-- name: readers
SELECT coalesce(json_agg(json_build_array(
           r.queue, r.name, r.token, r.position, r.committed, r.opened_at, r.active_at,
           (SELECT coalesce(sum(messages), 0)::bigint FROM reservation v
             WHERE v.queue = r.queue AND v.reader = r.name),
           (SELECT coalesce(sum(bytes), 0)::bigint FROM reservation v
             WHERE v.queue = r.queue AND v.reader = r.name),
           (SELECT made_at FROM reservation v WHERE v.queue = r.queue AND v.reader = r.name
             ORDER BY v.position LIMIT 1))
           ORDER BY r.queue, r.name), '[]')
  FROM reader r WHERE r.queue = ANY ($1::bigint[]);

-- name: remove_readers
DELETE FROM reader WHERE queue = $1::bigint;

-- name: remove_reservations
DELETE FROM reservation WHERE queue = $1::bigint;
