-- Messages that are deleted many at a time. Each statement looks at a bounded number of rows.

-- name: find_purgeable
SELECT max(id), count(*),
       coalesce(json_agg(json_build_array(id, body, size) ORDER BY id)
           FILTER (WHERE state = $4::bigint AND locked_until IS NULL AND enqueued_at <= $5::bigint
                     AND NOT is_in_hand), '[]')
  FROM (SELECT *, state = 0 AND EXISTS (
                      SELECT 1 FROM session s
                       WHERE s.queue = looked_at.queue AND s.session_id = looked_at.session_id
                         AND s.nonce IS DISTINCT FROM looked_at.nonce
                         AND (SELECT d.until FROM delivered d WHERE d.nonce = s.nonce)
                             >= looked_at.id) AS is_in_hand
          FROM (SELECT * FROM message WHERE id >= $1::bigint AND id < $2::bigint
                 ORDER BY id LIMIT $3::bigint) AS looked_at) AS judged;

-- name: find_purgeable_of_session
SELECT max(id), count(*),
       coalesce(json_agg(json_build_array(id, body, size) ORDER BY id)
           FILTER (WHERE state = $4::bigint AND locked_until IS NULL AND enqueued_at <= $5::bigint
                     AND NOT is_in_hand), '[]')
  FROM (SELECT *, state = 0 AND EXISTS (
                      SELECT 1 FROM session s
                       WHERE s.queue = looked_at.queue AND s.session_id = looked_at.session_id
                         AND s.nonce IS DISTINCT FROM looked_at.nonce
                         AND (SELECT d.until FROM delivered d WHERE d.nonce = s.nonce)
                             >= looked_at.id) AS is_in_hand
          FROM (SELECT * FROM (
                       (SELECT * FROM message
                         WHERE queue = $6::bigint
                           AND (session_id, id) >= ($7::text, $1::bigint)
                           AND (session_id, id) < ($7::text, $2::bigint)
                           AND session_id IS NOT NULL AND state = 0 AND locked_until IS NULL
                         ORDER BY session_id, id LIMIT $3::bigint)
                       UNION ALL
                       (SELECT * FROM message
                         WHERE queue = $6::bigint
                           AND (session_id, id) >= ($7::text, $1::bigint)
                           AND (session_id, id) < ($7::text, $2::bigint)
                           AND session_id IS NOT NULL
                           AND (state <> 0 OR locked_until IS NOT NULL)
                         ORDER BY session_id, id LIMIT $3::bigint)) AS of_session
                 ORDER BY session_id, id LIMIT $3::bigint) AS looked_at) AS judged;
