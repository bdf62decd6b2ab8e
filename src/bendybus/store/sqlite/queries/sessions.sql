-- Sessions. A message locked within one has, in place of a time, the session's nonce with the
-- second highest bit set and the highest cleared: `session_locks.mark_of`.

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
SELECT locked_until FROM session
 WHERE queue = ?1 AND session_id = ?2 AND nonce = ?3 AND locked_until > ?4;

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
         ORDER BY locked_until LIMIT ?2);

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
SELECT json_group_array(json_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key, marks,
           body, size))
  FROM (SELECT * FROM message INDEXED BY message_session_free
         WHERE queue = ?1 AND session_id = ?4 AND state = 0 AND locked_until IS NULL
           AND (expires_at IS NULL OR expires_at > ?2)
         ORDER BY id LIMIT ?3);

-- name: find_free_plain_in_session
SELECT json_group_array(id), json_group_array(enqueued_at), json_group_array(delivery_count),
       json_group_array(body), total(size),
       count(expires_at) + count(partition_key) + count(marks)
  FROM (SELECT * FROM message INDEXED BY message_session_free
         WHERE queue = ?1 AND session_id = ?4 AND state = 0 AND locked_until IS NULL
           AND (expires_at IS NULL OR expires_at > ?2)
         ORDER BY id LIMIT ?3);

-- name: browse_session
SELECT json_group_array(json_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key, marks,
           body, size,
           state, CASE WHEN locked_until < 0x4000000000000000 THEN locked_until
                       ELSE (SELECT s.locked_until FROM session s
                              WHERE s.queue = found.queue AND s.session_id = found.session_id
                                AND s.nonce = found.nonce) END,
           nonce))
  FROM (SELECT * FROM message INDEXED BY message_session
         WHERE queue = ?4 AND session_id = ?5 AND id >= ?1 AND id < ?2 AND state <> 9
         ORDER BY id LIMIT ?3) AS found;
