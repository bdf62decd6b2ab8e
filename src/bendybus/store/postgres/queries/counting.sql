-- How many messages queues hold, by state. Nothing here looks at messages one by one but
-- `count_locked`, which stops at a bound.

-- name: tally
SELECT coalesce(json_agg(json_build_array(
           q.number, greatest(q.message_count - q.scheduled_count - q.deferred_count, 0),
           q.scheduled_count, q.deferred_count,
           CASE WHEN q.message_count > 0 THEN
               coalesce(
                   (SELECT enqueued_at FROM message
                     WHERE queue >= q.number AND queue <= q.number
                       AND state = 0 AND locked_until IS NULL AND by_session IS NULL
                     ORDER BY queue, id LIMIT 1),
                   -- Of messages that are received by session: among the hundred oldest.
                   (SELECT enqueued_at
                      FROM (SELECT * FROM message
                             WHERE id >= q.number << $1::int AND id < (q.number + 1) << $1::int
                             ORDER BY id LIMIT 100) AS old
                     WHERE by_session = 1 AND state = 0 AND locked_until IS NULL
                       AND (SELECT d.nonce FROM delivered d
                             WHERE d.nonce = (SELECT s.nonce FROM session s
                                               WHERE s.queue = old.queue
                                                 AND s.session_id = old.session_id)
                               AND d.until >= old.id
                               AND d.nonce IS DISTINCT FROM old.nonce) IS NULL
                     ORDER BY id LIMIT 1)) END,
           CASE WHEN q.message_count > 0 THEN
               (SELECT enqueued_at FROM run
                 WHERE first >= q.number << $1::int AND first < (q.number + 1) << $1::int
                   AND is_damaged = 0
                 ORDER BY first LIMIT 1) END,
           q.message_bytes,
           (SELECT coalesce(sum(messages), 0)::bigint FROM reservation WHERE queue = q.number))),
           '[]')
  FROM queue q WHERE q.number = ANY ($2::bigint[]);

-- name: count_locked
SELECT coalesce(json_agg(json_build_array(queue, count)), '[]')
  FROM (SELECT id >> $1::int AS queue, count(*) AS count
          FROM ((SELECT id FROM message WHERE locked_until IS NOT NULL LIMIT $2::bigint)
                UNION ALL
                SELECT in_hand.id
                  FROM (SELECT * FROM session WHERE nonce IS NOT NULL LIMIT $2::bigint) AS s
                 CROSS JOIN LATERAL
                       (SELECT until FROM delivered WHERE nonce = s.nonce OFFSET 0) AS d
                 CROSS JOIN LATERAL
                       (SELECT m.id FROM message m
                         WHERE m.queue = s.queue AND (m.session_id, m.id) >= (s.session_id, 0)
                           AND (m.session_id, m.id) <= (s.session_id, d.until)
                           AND m.session_id IS NOT NULL AND m.state = 0 AND m.locked_until IS NULL
                           AND m.nonce IS DISTINCT FROM s.nonce
                         LIMIT $2::bigint) AS in_hand
                 LIMIT $2::bigint) AS locked
         GROUP BY 1) AS counted;

-- name: count_in
UPDATE queue
   SET scheduled_count = scheduled_count + $2::bigint, deferred_count = deferred_count + $3::bigint
 WHERE number = $1::bigint;

-- name: count_out
UPDATE queue
   SET scheduled_count = scheduled_count
           - (SELECT count(*) FILTER (WHERE state = 2) FROM message
               WHERE id = ANY ($2::bigint[])),
       deferred_count = deferred_count
           - (SELECT count(*) FILTER (WHERE state = 1) FROM message
               WHERE id = ANY ($2::bigint[]))
 WHERE number = $1::bigint;
