-- How many messages queues hold, by state. Nothing here looks at messages one by one but
-- `count_locked`, which stops at a bound.

-- name: tally
SELECT json_group_array(json_array(
           q.number, max(q.message_count - q.scheduled_count - q.deferred_count, 0),
           q.scheduled_count, q.deferred_count,
           CASE WHEN q.message_count > 0 THEN
               coalesce(
                   (SELECT enqueued_at FROM message INDEXED BY message_free
                     WHERE queue = q.number AND state = 0 AND locked_until IS NULL
                       AND by_session IS NULL
                     ORDER BY id LIMIT 1),
                   -- Of messages that are received by session: among the hundred oldest.
                   (SELECT enqueued_at
                      FROM (SELECT * FROM message
                             WHERE id >= q.number << ?1 AND id < (q.number + 1) << ?1
                             ORDER BY id LIMIT 100) AS old
                     WHERE by_session = 1 AND state = 0 AND locked_until IS NULL
                       AND NOT EXISTS (
                           SELECT 1 FROM session s CROSS JOIN delivered d ON d.nonce = s.nonce
                            WHERE s.queue = old.queue AND s.session_id = old.session_id
                              AND d.until >= old.id AND d.nonce IS NOT old.nonce)
                     LIMIT 1)) END,
           CASE WHEN q.message_count > 0 THEN
               coalesce(
                   (SELECT enqueued_at FROM run
                     WHERE first >= q.number << ?1 AND first < (q.number + 1) << ?1
                       AND is_damaged = 0
                     ORDER BY first LIMIT 1),
                   (SELECT enqueued_at FROM pack INDEXED BY pack_free
                     WHERE first >= q.number << ?1 AND first < (q.number + 1) << ?1
                       AND reservation IS NULL AND is_damaged = 0
                     ORDER BY first LIMIT 1)) END,
           q.message_bytes,
           (SELECT ifnull(sum(messages), 0) FROM reservation WHERE queue = q.number)))
  FROM carray(?2) c CROSS JOIN queue q ON q.number = c.value;

-- name: count_locked
SELECT json_group_array(json_array(queue, count))
  FROM (SELECT id >> ?1 AS queue, count(*) AS count
          FROM (SELECT id FROM message INDEXED BY message_locked
                 WHERE locked_until IS NOT NULL
                UNION ALL
                SELECT m.id
                  FROM delivered d
                  CROSS JOIN session s INDEXED BY session_held ON s.nonce = d.nonce
                  CROSS JOIN message m INDEXED BY message_session_free
                    ON m.queue = s.queue AND m.session_id = s.session_id
                   AND m.session_id IS NOT NULL AND m.state = 0 AND m.locked_until IS NULL
                   AND m.id <= d.until AND m.nonce IS NOT s.nonce
                 LIMIT ?2)
         GROUP BY 1);

-- name: count_in
UPDATE queue
   SET scheduled_count = scheduled_count + ?2, deferred_count = deferred_count + ?3
 WHERE number = ?1;

-- name: count_out
UPDATE queue
   SET scheduled_count = scheduled_count
           - (SELECT count(*) FROM message WHERE id IN carray(?2) AND state = 2),
       deferred_count = deferred_count
           - (SELECT count(*) FROM message WHERE id IN carray(?2) AND state = 1)
 WHERE number = ?1;
