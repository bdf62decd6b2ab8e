-- Sessions. Who holds one receives its messages in order, so no row of a message says that it was
-- given out: in hand are those up to `delivered.until` that look free. There are two exceptions:
--
-- - One that came back while the session is held has its nonce, and no lock: it is free.
-- - One that is given out again, or out of order, is locked by its row: it has the nonce and, in
--   place of a time, a mark made of it, `session_locks.mark_of`: the second highest bit set, the
--   highest cleared.
--
-- A nonce is never used again, so what is left of an ended lock says nothing.

-- name: note_arrivals
INSERT INTO session (queue, session_id, waiting_since, is_ready)
SELECT queue, session_id, ?3, 1
  FROM message WHERE id >= ?1 AND id < ?2 AND session_id IS NOT NULL AND state = 0
ON CONFLICT (queue, session_id) DO UPDATE SET is_ready = 1, waiting_since = ?3 WHERE is_ready = 0;

-- name: accept_named_session
INSERT INTO session (queue, session_id, waiting_since, is_ready, locked_until, nonce)
VALUES (?1, ?2, ?5, 0, ?3, ?4)
ON CONFLICT (queue, session_id) DO UPDATE SET locked_until = ?3, nonce = ?4 WHERE nonce IS NULL
RETURNING 1;

-- name: session_locked_until
SELECT locked_until FROM session WHERE queue = ?1 AND session_id = ?2;

-- name: find_waiting_sessions
SELECT json_group_array(json_array(
           session_id,
           EXISTS (SELECT 1 FROM message m INDEXED BY message_session_free
                    WHERE m.queue = ?1 AND m.session_id = waiting.session_id
                      AND m.state = 0 AND m.locked_until IS NULL
                      AND (m.expires_at IS NULL OR m.expires_at > ?2))))
  FROM (SELECT session_id FROM session INDEXED BY session_waiting
         WHERE queue = ?1 AND is_ready = 1 AND nonce IS NULL
         ORDER BY waiting_since LIMIT ?3) AS waiting;

-- name: lock_session
UPDATE session SET locked_until = ?3, nonce = ?4 WHERE queue = ?1 AND session_id = ?2;

-- name: note_idle_sessions
UPDATE session SET is_ready = 0
 WHERE queue = ?1 AND session_id IN (SELECT value FROM json_each(?2));

-- name: forget_idle_sessions
DELETE FROM session
 WHERE queue = ?1 AND session_id IN (SELECT value FROM json_each(?2))
   AND is_ready = 0 AND nonce IS NULL AND state IS NULL;

-- name: find_held_session
SELECT ifnull((SELECT until FROM delivered d WHERE d.nonce = ?3), 0) FROM session
 WHERE queue = ?1 AND session_id = ?2 AND nonce = ?3 AND locked_until > ?4;

-- name: note_delivered
INSERT INTO delivered (nonce, until) VALUES (?1, ?2)
ON CONFLICT (nonce) DO UPDATE SET until = ?2;

-- name: note_returned
UPDATE message
   SET locked_until = NULL, delivery_count = delivery_count + ?2,
       nonce = iif(id <= (SELECT until FROM delivered d WHERE d.nonce = ?3), ?3, NULL)
 WHERE id IN carray(?1);

-- name: note_late_arrivals
-- Messages that came under numbers which were taken for them before.
UPDATE message
   SET nonce = (SELECT d.nonce FROM session s CROSS JOIN delivered d ON d.nonce = s.nonce
                 WHERE s.queue = message.queue AND s.session_id = message.session_id
                   AND d.until >= message.id)
 WHERE id >= ?1 AND id < ?2 AND session_id IS NOT NULL AND state = 0;

-- name: find_in_hand
SELECT count(*), total(size), json_group_array(id),
       json_group_array(body) FILTER (WHERE body <> id), count(*) FILTER (WHERE state <> 0)
  FROM (SELECT s.queue, s.session_id,
               ifnull((SELECT until FROM delivered d WHERE d.nonce = ?3), 0) AS until
          FROM session s INDEXED BY session_held
         WHERE s.nonce = ?3
           AND CASE ?2 WHEN 'HELD' THEN s.locked_until > ?4 ELSE s.locked_until <= ?4 END) AS held
  CROSS JOIN message m NOT INDEXED
 WHERE m.id IN carray(?1) AND m.queue = held.queue AND m.session_id = held.session_id
   AND CASE WHEN m.locked_until IS NULL
            THEN m.state = 0 AND m.id <= held.until AND m.nonce IS NOT ?3
            ELSE m.nonce = ?3 END;

-- name: find_free_of_sessions
SELECT count(*), total(size), json_group_array(id),
       json_group_array(body) FILTER (WHERE body <> id), count(*) FILTER (WHERE state <> 0)
  FROM message
 WHERE id IN carray(?1) AND locked_until IS NULL
   AND CASE ?2 WHEN 'UNTOUCHED' THEN state = 0 AND delivery_count = ?3
               ELSE expires_at <= ?4 AND state NOT IN (3, 9) END
   AND (state <> 0
        OR NOT EXISTS (SELECT 1 FROM session s CROSS JOIN delivered d ON d.nonce = s.nonce
                        WHERE s.queue = message.queue AND s.session_id = message.session_id
                          AND d.until >= message.id AND d.nonce IS NOT message.nonce));

-- name: find_locked_in_sessions
SELECT json_group_array(json_array(
           m.id, enqueued_at, delivery_count, expires_at, m.session_id, partition_key, marks,
           body, size,
           m.state, s.locked_until, s.nonce))
  FROM message m
  CROSS JOIN session s
    ON s.queue = m.queue AND s.session_id = m.session_id AND s.locked_until > ?2
 WHERE m.id IN carray(?1)
   AND CASE WHEN m.locked_until IS NULL
            THEN m.state = 0 AND m.nonce IS NOT s.nonce
                 AND m.id <= (SELECT until FROM delivered d WHERE d.nonce = s.nonce)
            ELSE m.nonce = s.nonce END;

-- name: renew_session
UPDATE session SET locked_until = ?5
 WHERE queue = ?1 AND session_id = ?2 AND nonce = ?3 AND locked_until > ?4
RETURNING 1;

-- name: set_session_state
UPDATE session SET state = ?5, state_set_at = CASE WHEN ?5 IS NULL THEN NULL ELSE ?4 END
 WHERE queue = ?1 AND session_id = ?2 AND nonce = ?3 AND locked_until > ?4
RETURNING 1;

-- name: session_state
SELECT state FROM session
 WHERE queue = ?1 AND session_id = ?2 AND nonce = ?3 AND locked_until > ?4;

-- name: count_held
SELECT (SELECT count(*) FROM message INDEXED BY message_locked WHERE locked_until = ?4),
       (SELECT count(*)
          FROM delivered d CROSS JOIN message m INDEXED BY message_session_free
         WHERE d.nonce = ?3 AND m.queue = ?1 AND m.session_id = ?2 AND m.session_id IS NOT NULL
           AND m.state = 0 AND m.locked_until IS NULL
           AND m.id <= d.until AND m.nonce IS NOT ?3)
  FROM session
 WHERE queue = ?1 AND session_id = ?2 AND nonce = ?3 AND locked_until > ?5;

-- name: free_messages_of_session
UPDATE message INDEXED BY message_locked SET locked_until = NULL, nonce = NULL
 WHERE locked_until = ?1 AND nonce = ?2;

-- name: find_lapsed_sessions
SELECT json_group_array(json_array(queue, session_id))
  FROM (SELECT queue, session_id FROM session s INDEXED BY session_locked
         WHERE locked_until <= ?1
           AND NOT EXISTS (SELECT 1 FROM message m INDEXED BY message_locked
                            WHERE m.locked_until =
                                  (s.nonce & 0x3fffffffffffffff | 0x4000000000000000))
           AND NOT EXISTS (SELECT 1
                             FROM delivered d CROSS JOIN message m INDEXED BY message_session_free
                            WHERE d.nonce = s.nonce
                              AND m.queue = s.queue AND m.session_id = s.session_id
                              AND m.session_id IS NOT NULL
                              AND m.state = 0 AND m.locked_until IS NULL
                              AND m.id > d.freed_until AND m.id <= d.until
                              AND m.nonce IS NOT d.nonce)
         ORDER BY locked_until LIMIT ?2);

-- name: note_freed
-- So that each turn begins where the last one ended.
UPDATE delivered
   SET freed_until = ifnull(
           (SELECT m.id - 1
              FROM session s INDEXED BY session_held
              CROSS JOIN message m INDEXED BY message_session_free
             WHERE s.nonce = ?1 AND m.queue = s.queue AND m.session_id = s.session_id
               AND m.session_id IS NOT NULL AND m.state = 0 AND m.locked_until IS NULL
               AND m.id > delivered.freed_until AND m.id <= delivered.until AND m.nonce IS NOT ?1
             ORDER BY m.id LIMIT 1),
           until)
 WHERE nonce = ?1;

-- name: forget_deliveries
DELETE FROM delivered
 WHERE nonce IN (SELECT s.nonce FROM json_each(?1) ended CROSS JOIN session s
                  WHERE s.queue = ended.value ->> 0 AND s.session_id = ended.value ->> 1);

-- name: end_sessions
UPDATE session
   SET locked_until = NULL, nonce = NULL, waiting_since = ?2,
       is_ready = EXISTS (SELECT 1 FROM message m INDEXED BY message_session_free
                           WHERE m.queue = session.queue AND m.session_id = session.session_id
                             AND m.state = 0 AND m.locked_until IS NULL)
 WHERE (queue, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1));

-- name: forget_ended_sessions
DELETE FROM session
 WHERE (queue, session_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
   AND is_ready = 0 AND nonce IS NULL AND state IS NULL;

-- name: list_sessions
SELECT json_group_array(json_array(
           0, session_id,
           state IS NOT NULL
           OR EXISTS (SELECT 1 FROM message m INDEXED BY message_session_free
                       WHERE m.queue = ?1 AND m.session_id = s.session_id
                         AND m.state = 0 AND m.locked_until IS NULL)
           OR EXISTS (SELECT 1 FROM message m INDEXED BY message_locked
                       WHERE m.locked_until = (s.nonce & 0x3fffffffffffffff | 0x4000000000000000)
                         AND m.state = 0)))
  FROM (SELECT * FROM session
         WHERE queue = ?1 AND session_id >= coalesce(?2, '') AND session_id IS NOT ?2
         ORDER BY session_id LIMIT ?3) AS s;

-- name: list_changed_sessions
SELECT json_group_array(json_array(state_set_at, session_id, 1))
  FROM (SELECT * FROM session INDEXED BY session_changed
         WHERE queue = ?1 AND state_set_at >= ?4
           AND (state_set_at > ?4 OR ?2 IS NULL OR session_id > ?2)
         ORDER BY state_set_at, session_id LIMIT ?3);

-- name: find_free_in_session
-- First what came back, all of it before what was not given out yet.
SELECT json_group_array(json_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key, marks,
           body, size))
  FROM (SELECT * FROM (SELECT * FROM message INDEXED BY message_nonce
                       WHERE nonce = ?5 AND state = 0 AND locked_until IS NULL
                         AND (expires_at IS NULL OR expires_at > ?2)
                       ORDER BY id LIMIT ?3)
        UNION ALL
        SELECT * FROM (SELECT * FROM message INDEXED BY message_session_free
                       WHERE queue = ?1 AND session_id = ?4 AND state = 0
                         AND locked_until IS NULL AND id > ?6
                         AND (expires_at IS NULL OR expires_at > ?2)
                       ORDER BY id LIMIT ?3)
        LIMIT ?3);

-- name: find_free_plain_in_session
-- One that has expired is found as well: the careful way must see that it is passed over.
SELECT json_group_array(id), json_group_array(enqueued_at), json_group_array(delivery_count),
       json_group_array(body), total(size),
       count(expires_at) + count(partition_key) + count(marks)
  FROM (SELECT * FROM (SELECT * FROM message INDEXED BY message_nonce
                       WHERE nonce = ?5 AND state = 0 AND locked_until IS NULL
                       ORDER BY id LIMIT ?3)
        UNION ALL
        SELECT * FROM (SELECT * FROM message INDEXED BY message_session_free
                       WHERE queue = ?1 AND session_id = ?4 AND state = 0
                         AND locked_until IS NULL AND id > ?6
                       ORDER BY id LIMIT ?3)
        LIMIT ?3);

-- name: expired_before
SELECT EXISTS (SELECT 1 FROM message INDEXED BY message_session_free
                WHERE queue = ?1 AND session_id = ?3 AND state = 0 AND locked_until IS NULL
                  AND id > ?4 AND id < ?5 AND expires_at <= ?2);

-- name: browse_session
SELECT json_group_array(json_array(
           found.id, enqueued_at, delivery_count, expires_at, found.session_id, partition_key,
           marks, body, size, found.state,
           iif(found.locked_until < 0x4000000000000000, found.locked_until, s.locked_until),
           iif(found.locked_until < 0x4000000000000000, found.nonce, s.nonce)))
  FROM (SELECT * FROM message INDEXED BY message_session_free
         WHERE queue = ?4 AND session_id = ?5 AND id >= ?1 AND id < ?2
           AND state = 0 AND locked_until IS NULL
        UNION ALL
        SELECT * FROM message INDEXED BY message_session_rest
         WHERE queue = ?4 AND session_id = ?5 AND id >= ?1 AND id < ?2 AND state <> 9
           AND (state <> 0 OR locked_until IS NOT NULL)
         ORDER BY id LIMIT ?3) AS found
  LEFT JOIN session s
    ON s.queue = found.queue AND s.session_id = found.session_id
   AND CASE WHEN found.locked_until IS NOT NULL THEN s.nonce = found.nonce
            ELSE found.state = 0 AND s.nonce IS NOT found.nonce
                 AND found.id <= (SELECT until FROM delivered WHERE nonce = s.nonce) END;

-- name: lock_in_hand
-- Those that expire while they are in hand: nothing that looks for ended lives sees them then.
UPDATE message
   SET nonce = held.value ->> 1,
       locked_until = held.value ->> 1 & 0x3fffffffffffffff | 0x4000000000000000
  FROM json_each(?1) AS held
 WHERE message.id = held.value ->> 0;
