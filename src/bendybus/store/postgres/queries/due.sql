-- What is due, and when something will be. Both in one step for all kinds: locks that have ended,
-- messages of sessions whose lock has, by their rows and in hand, lives, delays.

-- name: due
SELECT (SELECT coalesce(json_agg(json_build_array(
                   locked_until, id, nonce, delivery_count, marks)), '[]')
          FROM (SELECT * FROM message
                 WHERE locked_until <= $1::bigint
                 ORDER BY locked_until, id LIMIT $2::bigint) AS lapsed),
       (SELECT coalesce(json_agg(json_build_array(
                   due_at, id, nonce, delivery_count, marks)), '[]')
          FROM (SELECT s.locked_until AS due_at, m.*
                  FROM session s
                 CROSS JOIN LATERAL
                       (SELECT * FROM message
                         WHERE locked_until
                               = ((s.nonce & 4611686018427387903) | 4611686018427387904)
                        OFFSET 0) AS m
                 WHERE s.locked_until <= $1::bigint
                 ORDER BY s.locked_until LIMIT $2::bigint) AS marked),
       (SELECT coalesce(json_agg(json_build_array(
                   due_at, id, held_by, delivery_count, marks)), '[]')
          FROM (SELECT s.locked_until AS due_at, s.nonce AS held_by, in_hand.*
                  FROM session s
                 CROSS JOIN LATERAL
                       (SELECT * FROM delivered WHERE nonce = s.nonce OFFSET 0) AS d
                 CROSS JOIN LATERAL
                       (SELECT id, delivery_count, marks FROM message m
                         WHERE m.queue = s.queue
                           AND (m.session_id, m.id) > (s.session_id, d.freed_until)
                           AND (m.session_id, m.id) <= (s.session_id, d.until)
                           AND m.session_id IS NOT NULL AND m.state = 0 AND m.locked_until IS NULL
                           AND m.nonce IS DISTINCT FROM s.nonce
                         ORDER BY m.session_id, m.id LIMIT $2::bigint) AS in_hand
                 WHERE s.locked_until <= $1::bigint
                 ORDER BY s.locked_until LIMIT $2::bigint) AS handed_out),
       -- With the nonce of a session those that somebody has in hand.
       (SELECT coalesce(json_agg(json_build_array(
                   expires_at, id,
                   (SELECT d.nonce FROM delivered d
                     WHERE d.nonce = (SELECT s.nonce FROM session s
                                       WHERE s.queue = expired.queue
                                         AND s.session_id = expired.session_id)
                       AND d.until >= expired.id AND d.nonce IS DISTINCT FROM expired.nonce),
                   delivery_count, marks)), '[]')
          FROM (SELECT * FROM message
                 WHERE expires_at <= $1::bigint AND locked_until IS NULL AND state = 0
                 ORDER BY expires_at, id LIMIT $2::bigint) AS expired),
       (SELECT coalesce(json_agg(json_build_array(
                   enqueued_at, id, 0, delivery_count, marks)), '[]')
          FROM (SELECT * FROM message
                 WHERE state = 2 AND enqueued_at <= $1::bigint
                 ORDER BY enqueued_at, id LIMIT $2::bigint) AS scheduled);

-- name: next_due
SELECT (SELECT locked_until FROM message WHERE locked_until < 4611686018427387904
         ORDER BY locked_until LIMIT 1),
       (SELECT locked_until FROM session WHERE locked_until IS NOT NULL
         ORDER BY locked_until LIMIT 1),
       (SELECT expires_at FROM message
         WHERE expires_at IS NOT NULL AND locked_until IS NULL AND state = 0
         ORDER BY expires_at LIMIT 1),
       (SELECT enqueued_at FROM message WHERE state = 2 ORDER BY enqueued_at LIMIT 1),
       (SELECT expires_at FROM run WHERE expires_at IS NOT NULL AND is_damaged = 0
         ORDER BY expires_at LIMIT 1);
