-- Sessions. Who holds one receives its messages in order, so no row of a message says that it was
-- given out: in hand are those up to `delivered.until` that look free. There are two exceptions:
--
-- - One that came back while the session is held has its nonce, and no lock: it is free.
-- - One that is given out again, or out of order, is locked by its row: it has the nonce and, in
--   place of a time, a mark made of it, `session_locks.mark_of`: the second highest bit set, the
--   highest cleared.
--
-- A nonce is never used again, so what is left of an ended lock says nothing.
--
-- Messages of a session are found by (session_id, id) as a row: only the indexes of sessions have
-- it, so that no plan walks along the primary key. See messages.sql for the other rules. Sessions
-- that are named are looked up one by one, and changed where they were found (`ctid`).

-- name: note_arrivals
-- Those that are ready are left out here, and not by the conflict, which would write their row.
INSERT INTO session (queue, session_id, waiting_since, is_ready)
SELECT DISTINCT m.queue, m.session_id, $3::bigint, 1
  FROM message m
 WHERE m.id >= $1::bigint AND m.id < $2::bigint AND m.session_id IS NOT NULL AND m.state = 0
   AND coalesce((SELECT s.is_ready FROM session s
                  WHERE s.queue = m.queue AND s.session_id = m.session_id), 0) = 0
ON CONFLICT (queue, session_id) DO UPDATE SET is_ready = 1, waiting_since = $3::bigint;

-- name: accept_named_session
INSERT INTO session (queue, session_id, waiting_since, is_ready, locked_until, nonce)
VALUES ($1::bigint, $2::text, $5::bigint, 0, $3::bigint, $4::bigint)
ON CONFLICT (queue, session_id) DO UPDATE SET locked_until = $3::bigint, nonce = $4::bigint
 WHERE session.nonce IS NULL
RETURNING 1;

-- name: session_locked_until
SELECT locked_until FROM session WHERE queue = $1::bigint AND session_id = $2::text;

-- name: find_waiting_sessions
SELECT coalesce(json_agg(json_build_array(
           session_id,
           (SELECT 1 FROM message m
             WHERE m.queue = $1::bigint AND m.session_id = waiting.session_id
               AND m.state = 0 AND m.locked_until IS NULL
               AND (m.expires_at IS NULL OR m.expires_at > $2::bigint)
             LIMIT 1) IS NOT NULL)), '[]')
  FROM (SELECT session_id FROM session
         WHERE queue = $1::bigint AND is_ready = 1 AND nonce IS NULL
         ORDER BY waiting_since, session_id LIMIT $3::bigint) AS waiting;

-- name: lock_session
UPDATE session SET locked_until = $3::bigint, nonce = $4::bigint
 WHERE queue = $1::bigint AND session_id = $2::text;

-- name: note_idle_sessions
UPDATE session SET is_ready = 0
 WHERE ctid = ANY (ARRAY (
           SELECT s.ctid
             FROM jsonb_array_elements_text($2::jsonb) AS named (session_id)
            CROSS JOIN LATERAL
                  (SELECT ctid FROM session
                    WHERE queue = $1::bigint AND session_id = named.session_id OFFSET 0) AS s));

-- name: forget_idle_sessions
DELETE FROM session
 WHERE ctid = ANY (ARRAY (
           SELECT s.ctid
             FROM jsonb_array_elements_text($2::jsonb) AS named (session_id)
            CROSS JOIN LATERAL
                  (SELECT ctid FROM session
                    WHERE queue = $1::bigint AND session_id = named.session_id OFFSET 0) AS s))
   AND is_ready = 0 AND nonce IS NULL AND state IS NULL;

-- name: find_held_session
SELECT coalesce((SELECT until FROM delivered d WHERE d.nonce = $3::bigint), 0) FROM session
 WHERE queue = $1::bigint AND session_id = $2::text AND nonce = $3::bigint
   AND locked_until > $4::bigint;

-- name: note_delivered
INSERT INTO delivered (nonce, until) VALUES ($1::bigint, $2::bigint)
ON CONFLICT (nonce) DO UPDATE SET until = $2::bigint;

-- name: note_returned
UPDATE message
   SET locked_until = NULL, delivery_count = delivery_count + $2::bigint,
       nonce = CASE WHEN id <= (SELECT until FROM delivered d WHERE d.nonce = $3::bigint)
                    THEN $3::bigint END
 WHERE id = ANY ($1::bigint[]);

-- name: note_late_arrivals
-- Messages that came under numbers which were taken for them before.
UPDATE message
   SET nonce = (SELECT d.nonce FROM delivered d
                 WHERE d.until >= message.id
                   AND d.nonce = (SELECT s.nonce FROM session s
                                   WHERE s.queue = message.queue
                                     AND s.session_id = message.session_id))
 WHERE id >= $1::bigint AND id < $2::bigint AND session_id IS NOT NULL AND state = 0;

-- name: find_in_hand
SELECT count(*), coalesce(sum(size), 0)::bigint, coalesce(json_agg(id), '[]'),
       coalesce(json_agg(body) FILTER (WHERE body <> id), '[]'),
       count(*) FILTER (WHERE state <> 0)
  FROM (SELECT s.queue, s.session_id,
               coalesce((SELECT until FROM delivered d WHERE d.nonce = $3::bigint), 0) AS until
          FROM session s
         WHERE s.nonce = $3::bigint
           AND CASE $2::text WHEN 'HELD' THEN s.locked_until > $4::bigint
                             ELSE s.locked_until <= $4::bigint END
        OFFSET 0) AS held
 CROSS JOIN LATERAL
       (SELECT m.id, m.size, m.body, m.state
          FROM (SELECT * FROM message WHERE id = ANY ($1::bigint[]) ORDER BY id OFFSET 0) AS m
         WHERE m.queue = held.queue AND m.session_id = held.session_id
           AND CASE WHEN m.locked_until IS NULL
                    THEN m.state = 0 AND m.id <= held.until
                         AND m.nonce IS DISTINCT FROM $3::bigint
                    ELSE m.nonce = $3::bigint END
        OFFSET 0) AS found;

-- name: find_free_of_sessions
SELECT count(*), coalesce(sum(size), 0)::bigint, coalesce(json_agg(id), '[]'),
       coalesce(json_agg(body) FILTER (WHERE body <> id), '[]'),
       count(*) FILTER (WHERE state <> 0)
  FROM (SELECT m.id, m.size, m.body, m.state
          FROM (SELECT * FROM message WHERE id = ANY ($1::bigint[]) ORDER BY id OFFSET 0) AS m
         WHERE m.locked_until IS NULL
           AND CASE $2::text WHEN 'UNTOUCHED' THEN m.state = 0 AND m.delivery_count = $3::bigint
                             ELSE m.expires_at <= $4::bigint AND m.state NOT IN (3, 9) END
           AND (m.state <> 0
                OR NOT EXISTS (SELECT 1 FROM delivered d
                                WHERE d.nonce = (SELECT s.nonce FROM session s
                                                  WHERE s.queue = m.queue
                                                    AND s.session_id = m.session_id)
                                  AND d.until >= m.id AND d.nonce IS DISTINCT FROM m.nonce))
        OFFSET 0) AS found;

-- name: find_locked_in_sessions
SELECT coalesce(json_agg(json_build_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key, marks,
           body, size,
           state, session_until, session_nonce)), '[]')
  FROM (SELECT m.*, s.locked_until AS session_until, s.nonce AS session_nonce
          FROM (SELECT * FROM message WHERE id = ANY ($1::bigint[]) ORDER BY id OFFSET 0) AS m
         CROSS JOIN LATERAL
               (SELECT locked_until, nonce FROM session
                 WHERE queue = m.queue AND session_id = m.session_id OFFSET 0) AS s
         WHERE s.locked_until > $2::bigint
           AND CASE WHEN m.locked_until IS NULL
                    THEN m.state = 0 AND m.nonce IS DISTINCT FROM s.nonce
                         AND m.id <= (SELECT until FROM delivered d WHERE d.nonce = s.nonce)
                    ELSE m.nonce = s.nonce END) AS found;

-- name: renew_session
UPDATE session SET locked_until = $5::bigint
 WHERE queue = $1::bigint AND session_id = $2::text AND nonce = $3::bigint
   AND locked_until > $4::bigint
RETURNING 1;

-- name: set_session_state
UPDATE session
   SET state = $5::bytea,
       state_set_at = CASE WHEN $5::bytea IS NULL THEN NULL ELSE $4::bigint END
 WHERE queue = $1::bigint AND session_id = $2::text AND nonce = $3::bigint
   AND locked_until > $4::bigint
RETURNING 1;

-- name: session_state
SELECT state FROM session
 WHERE queue = $1::bigint AND session_id = $2::text AND nonce = $3::bigint
   AND locked_until > $4::bigint;

-- name: count_held
SELECT (SELECT count(*) FROM message WHERE locked_until = $4::bigint),
       (SELECT count(*) FROM message m
         WHERE m.queue = $1::bigint AND (m.session_id, m.id) >= ($2::text, 0)
           AND (m.session_id, m.id)
               <= ($2::text, (SELECT until FROM delivered d WHERE d.nonce = $3::bigint))
           AND m.session_id IS NOT NULL AND m.state = 0 AND m.locked_until IS NULL
           AND m.nonce IS DISTINCT FROM $3::bigint)
  FROM session
 WHERE queue = $1::bigint AND session_id = $2::text AND nonce = $3::bigint
   AND locked_until > $5::bigint;

-- name: free_messages_of_session
UPDATE message SET locked_until = NULL, nonce = NULL
 WHERE locked_until = $1::bigint AND nonce = $2::bigint;

-- name: find_lapsed_sessions
SELECT coalesce(json_agg(json_build_array(queue, session_id)), '[]')
  FROM (SELECT s.queue, s.session_id
          FROM session s
          LEFT JOIN LATERAL
               (SELECT * FROM delivered WHERE nonce = s.nonce OFFSET 0) AS d ON true
         WHERE s.locked_until <= $1::bigint
           AND (SELECT 1 FROM message m
                 WHERE m.locked_until = ((s.nonce & 4611686018427387903) | 4611686018427387904)
                 LIMIT 1) IS NULL
           AND (SELECT 1 FROM message m
                 WHERE m.queue = s.queue AND (m.session_id, m.id) > (s.session_id, d.freed_until)
                   AND (m.session_id, m.id) <= (s.session_id, d.until)
                   AND m.session_id IS NOT NULL AND m.state = 0 AND m.locked_until IS NULL
                   AND m.nonce IS DISTINCT FROM d.nonce
                 LIMIT 1) IS NULL
         ORDER BY s.locked_until LIMIT $2::bigint) AS lapsed;

-- name: note_freed
-- So that each turn begins where the last one ended.
UPDATE delivered
   SET freed_until = coalesce(
           (SELECT in_hand.id - 1
              FROM session s
             CROSS JOIN LATERAL
                   (SELECT m.id FROM message m
                     WHERE m.queue = s.queue
                       AND (m.session_id, m.id) > (s.session_id, delivered.freed_until)
                       AND (m.session_id, m.id) <= (s.session_id, delivered.until)
                       AND m.session_id IS NOT NULL AND m.state = 0 AND m.locked_until IS NULL
                       AND m.nonce IS DISTINCT FROM $1::bigint
                     ORDER BY m.session_id, m.id LIMIT 1) AS in_hand
             WHERE s.nonce = $1::bigint),
           until)
 WHERE nonce = $1::bigint;

-- name: forget_deliveries
DELETE FROM delivered
 WHERE nonce = ANY (ARRAY (
           SELECT s.nonce
             FROM jsonb_array_elements($1::jsonb) AS ended
            CROSS JOIN LATERAL
                  (SELECT nonce FROM session
                    WHERE queue = (ended.value ->> 0)::bigint
                      AND session_id = ended.value ->> 1 OFFSET 0) AS s));

-- name: end_sessions
UPDATE session
   SET locked_until = NULL, nonce = NULL, waiting_since = $2::bigint,
       is_ready = coalesce((SELECT 1 FROM message m
                             WHERE m.queue = session.queue AND m.session_id = session.session_id
                               AND m.state = 0 AND m.locked_until IS NULL
                             LIMIT 1), 0)
 WHERE ctid = ANY (ARRAY (
           SELECT s.ctid
             FROM jsonb_array_elements($1::jsonb) AS ended
            CROSS JOIN LATERAL
                  (SELECT ctid FROM session
                    WHERE queue = (ended.value ->> 0)::bigint
                      AND session_id = ended.value ->> 1 OFFSET 0) AS s));

-- name: forget_ended_sessions
DELETE FROM session
 WHERE ctid = ANY (ARRAY (
           SELECT s.ctid
             FROM jsonb_array_elements($1::jsonb) AS ended
            CROSS JOIN LATERAL
                  (SELECT ctid FROM session
                    WHERE queue = (ended.value ->> 0)::bigint
                      AND session_id = ended.value ->> 1 OFFSET 0) AS s))
   AND is_ready = 0 AND nonce IS NULL AND state IS NULL;

-- name: list_sessions
SELECT coalesce(json_agg(json_build_array(
           0, session_id,
           state IS NOT NULL
           OR (SELECT 1 FROM message m
                WHERE m.queue = $1::bigint AND m.session_id = s.session_id
                  AND m.state = 0 AND m.locked_until IS NULL
                LIMIT 1) IS NOT NULL
           OR (SELECT 1 FROM message m
                WHERE m.locked_until = ((s.nonce & 4611686018427387903) | 4611686018427387904)
                  AND m.state = 0
                LIMIT 1) IS NOT NULL)), '[]')
  FROM (SELECT session_id, state, nonce FROM session
         WHERE queue = $1::bigint AND session_id >= coalesce($2::text, '')
           AND session_id IS DISTINCT FROM $2::text
         ORDER BY session_id LIMIT $3::bigint) AS s;

-- name: list_changed_sessions
SELECT coalesce(json_agg(json_build_array(state_set_at, session_id, 1)), '[]')
  FROM (SELECT state_set_at, session_id FROM session
         WHERE queue = $1::bigint AND state_set_at >= $4::bigint
           AND (state_set_at > $4::bigint OR $2::text IS NULL OR session_id > $2::text)
         ORDER BY state_set_at, session_id LIMIT $3::bigint) AS changed;

-- name: find_free_in_session
-- First what came back, all of it before what was not given out yet.
SELECT coalesce(json_agg(json_build_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key, marks,
           body, size)), '[]')
  FROM ((SELECT * FROM message
          WHERE nonce >= $5::bigint AND nonce <= $5::bigint
            AND state = 0 AND locked_until IS NULL
            AND (expires_at IS NULL OR expires_at > $2::bigint)
          ORDER BY nonce, id LIMIT $3::bigint)
        UNION ALL
        (SELECT * FROM message
          WHERE queue = $1::bigint AND (session_id, id) > ($4::text, $6::bigint)
            AND session_id <= $4::text AND state = 0 AND locked_until IS NULL
            AND (expires_at IS NULL OR expires_at > $2::bigint)
          ORDER BY session_id, id LIMIT $3::bigint)
        LIMIT $3::bigint) AS found;

-- name: find_free_plain_in_session
-- One that has expired is found as well: the careful way must see that it is passed over.
-- So the time, $2, is of no use, but PostgreSQL wants to see of what type it is.
SELECT coalesce(json_agg(id), '[]'), coalesce(json_agg(enqueued_at), '[]'),
       coalesce(json_agg(delivery_count), '[]'), coalesce(json_agg(body), '[]'),
       coalesce(sum(size), 0)::bigint,
       count(expires_at) + count(partition_key) + count(marks)
  FROM ((SELECT * FROM message
          WHERE nonce >= $5::bigint AND nonce <= $5::bigint
            AND state = 0 AND locked_until IS NULL
          ORDER BY nonce, id LIMIT $3::bigint)
        UNION ALL
        (SELECT * FROM message
          WHERE queue = $1::bigint AND (session_id, id) > ($4::text, $6::bigint)
            AND session_id <= $4::text AND state = 0 AND locked_until IS NULL
          ORDER BY session_id, id LIMIT $3::bigint)
        LIMIT $3::bigint) AS found
 WHERE $2::bigint IS NOT NULL;

-- name: expired_before
SELECT EXISTS (SELECT 1
                 FROM (SELECT expires_at FROM message
                        WHERE queue = $1::bigint AND (session_id, id) > ($3::text, $4::bigint)
                          AND (session_id, id) < ($3::text, $5::bigint)
                          AND session_id IS NOT NULL AND state = 0 AND locked_until IS NULL
                       OFFSET 0) AS free
                WHERE expires_at <= $2::bigint);

-- name: browse_session
SELECT coalesce(json_agg(json_build_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key,
           marks, body, size, state,
           CASE WHEN locked_until < 4611686018427387904 THEN locked_until ELSE session_until END,
           CASE WHEN locked_until < 4611686018427387904 THEN nonce ELSE session_nonce END)),
           '[]')
  FROM (SELECT found.*, s.locked_until AS session_until, s.nonce AS session_nonce
          FROM ((SELECT * FROM message
                  WHERE queue = $4::bigint AND (session_id, id) >= ($5::text, $1::bigint)
                    AND (session_id, id) < ($5::text, $2::bigint)
                    AND session_id IS NOT NULL AND state = 0 AND locked_until IS NULL
                  ORDER BY session_id, id LIMIT $3::bigint)
                UNION ALL
                (SELECT * FROM message
                  WHERE queue = $4::bigint AND (session_id, id) >= ($5::text, $1::bigint)
                    AND (session_id, id) < ($5::text, $2::bigint)
                    AND session_id IS NOT NULL AND state <> 9
                    AND (state <> 0 OR locked_until IS NOT NULL)
                  ORDER BY session_id, id LIMIT $3::bigint)
                ORDER BY session_id, id LIMIT $3::bigint) AS found
          LEFT JOIN LATERAL
               (SELECT locked_until, nonce FROM session
                 WHERE queue = found.queue AND session_id = found.session_id OFFSET 0) AS s
            ON CASE WHEN found.locked_until IS NOT NULL THEN s.nonce = found.nonce
                    ELSE found.state = 0 AND s.nonce IS DISTINCT FROM found.nonce
                         AND found.id <= (SELECT until FROM delivered d WHERE d.nonce = s.nonce)
               END) AS seen;

-- name: lock_in_hand
-- Those that expire while they are in hand: nothing that looks for ended lives sees them then.
UPDATE message
   SET nonce = held.nonce,
       locked_until = ((held.nonce & 4611686018427387903) | 4611686018427387904)
  FROM (SELECT m.ctid AS place, (given.value ->> 1)::bigint AS nonce
          FROM jsonb_array_elements($1::jsonb) AS given
         CROSS JOIN LATERAL
               (SELECT ctid FROM message WHERE id = (given.value ->> 0)::bigint OFFSET 0) AS m
        OFFSET 0) AS held
 WHERE message.ctid = held.place;
