-- Messages that are deleted many at a time. Each statement looks at a bounded number of rows.

-- name: find_purgeable
SELECT max(id), count(*),
       json_group_array(json_array(id, body, size))
           FILTER (WHERE state = ?4 AND locked_until IS NULL AND enqueued_at <= ?5
                     AND NOT is_in_hand)
  FROM (SELECT *, state = 0 AND EXISTS (
                      SELECT 1 FROM session s CROSS JOIN delivered d ON d.nonce = s.nonce
                       WHERE s.queue = looked_at.queue AND s.session_id = looked_at.session_id
                         AND d.until >= looked_at.id AND d.nonce IS NOT looked_at.nonce) AS is_in_hand
          FROM (SELECT * FROM message WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3) AS looked_at);

-- name: find_purgeable_of_session
SELECT max(id), count(*),
       json_group_array(json_array(id, body, size))
           FILTER (WHERE state = ?4 AND locked_until IS NULL AND enqueued_at <= ?5
                     AND NOT is_in_hand)
  FROM (SELECT *, state = 0 AND EXISTS (
                      SELECT 1 FROM session s CROSS JOIN delivered d ON d.nonce = s.nonce
                       WHERE s.queue = looked_at.queue AND s.session_id = looked_at.session_id
                         AND d.until >= looked_at.id AND d.nonce IS NOT looked_at.nonce) AS is_in_hand
          FROM (SELECT * FROM message INDEXED BY message_session_free
                 WHERE queue = ?6 AND session_id = ?7 AND id >= ?1 AND id < ?2
                   AND state = 0 AND locked_until IS NULL
                UNION ALL
                SELECT * FROM message INDEXED BY message_session_rest
                 WHERE queue = ?6 AND session_id = ?7 AND id >= ?1 AND id < ?2
                   AND (state <> 0 OR locked_until IS NOT NULL)
                 ORDER BY id LIMIT ?3) AS looked_at);
