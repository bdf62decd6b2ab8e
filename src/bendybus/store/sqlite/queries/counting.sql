-- How many messages queues hold, by state. Nothing here looks at messages one by one but
-- `count_locked`, which stops at a bound.

-- name: tally
SELECT json_group_array(json_array(
           q.number, max(q.message_count - q.scheduled_count - q.deferred_count, 0),
           q.scheduled_count, q.deferred_count,
           CASE WHEN q.message_count > 0 THEN
               (SELECT enqueued_at FROM message INDEXED BY message_free
                 WHERE queue = q.number AND state = 0 AND locked_until IS NULL
                 ORDER BY id LIMIT 1) END,
           CASE WHEN q.message_count > 0 THEN
               (SELECT enqueued_at FROM run
                 WHERE first >= q.number << ?1 AND first < (q.number + 1) << ?1 AND is_damaged = 0
                 ORDER BY first LIMIT 1) END,
           q.message_bytes))
  FROM carray(?2) c CROSS JOIN queue q ON q.number = c.value;

-- name: count_locked
SELECT json_group_array(json_array(queue, count))
  FROM (SELECT id >> ?1 AS queue, count(*) AS count
          FROM (SELECT id FROM message INDEXED BY message_locked
                 WHERE locked_until IS NOT NULL LIMIT ?2)
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
