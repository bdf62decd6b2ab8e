-- What is due, and when something will be. Both in one step for all kinds: locks that have ended,
-- messages of sessions whose lock has, by their rows and in hand, lives, delays.

-- name: due
SELECT (SELECT json_group_array(json_array(locked_until, id, nonce, delivery_count, marks))
          FROM (SELECT * FROM message INDEXED BY message_locked
                 WHERE locked_until <= ?1 ORDER BY locked_until LIMIT ?2)),
       (SELECT json_group_array(json_array(due_at, id, nonce, delivery_count, marks))
          FROM (SELECT s.locked_until AS due_at, m.*
                  FROM session s INDEXED BY session_locked
                  CROSS JOIN message m INDEXED BY message_locked
                    ON m.locked_until = (s.nonce & 0x3fffffffffffffff | 0x4000000000000000)
                 WHERE s.locked_until <= ?1 ORDER BY s.locked_until LIMIT ?2)),
       (SELECT json_group_array(json_array(due_at, id, held_by, delivery_count, marks))
          FROM (SELECT s.locked_until AS due_at, s.nonce AS held_by, m.*
                  FROM session s INDEXED BY session_locked
                  CROSS JOIN delivered d ON d.nonce = s.nonce
                  CROSS JOIN message m INDEXED BY message_session_free
                    ON m.queue = s.queue AND m.session_id = s.session_id
                   AND m.session_id IS NOT NULL AND m.state = 0 AND m.locked_until IS NULL
                   AND m.id > d.freed_until AND m.id <= d.until AND m.nonce IS NOT s.nonce
                 WHERE s.locked_until <= ?1 ORDER BY s.locked_until LIMIT ?2)),
       -- With the nonce of a session those that somebody has in hand.
       (SELECT json_group_array(json_array(
                   expires_at, id,
                   (SELECT d.nonce FROM session s CROSS JOIN delivered d ON d.nonce = s.nonce
                     WHERE s.queue = expired.queue AND s.session_id = expired.session_id
                       AND d.until >= expired.id AND d.nonce IS NOT expired.nonce),
                   delivery_count, marks))
          FROM (SELECT * FROM message INDEXED BY message_expiring
                 WHERE expires_at <= ?1 AND locked_until IS NULL AND state = 0
                 ORDER BY expires_at LIMIT ?2) AS expired),
       (SELECT json_group_array(json_array(enqueued_at, id, 0, delivery_count, marks))
          FROM (SELECT * FROM message INDEXED BY message_scheduled
                 WHERE state = 2 AND enqueued_at <= ?1 ORDER BY enqueued_at, id LIMIT ?2));

-- name: next_due
SELECT (SELECT min(locked_until) FROM message INDEXED BY message_locked
         WHERE locked_until < 0x4000000000000000),
       (SELECT min(locked_until) FROM session INDEXED BY session_locked
         WHERE locked_until IS NOT NULL),
       (SELECT min(expires_at) FROM message INDEXED BY message_expiring
         WHERE expires_at IS NOT NULL AND locked_until IS NULL AND state = 0),
       (SELECT min(enqueued_at) FROM message INDEXED BY message_scheduled WHERE state = 2),
       (SELECT min(expires_at) FROM run INDEXED BY run_expiring
         WHERE expires_at IS NOT NULL AND is_damaged = 0),
       (SELECT min(expires_at) FROM pack INDEXED BY pack_expiring
         WHERE expires_at IS NOT NULL AND reservation IS NULL AND is_damaged = 0);
