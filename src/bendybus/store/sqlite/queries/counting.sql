-- How many messages queues hold, by state. None of them looks at messages one by one.

-- name: tally_some
SELECT json_group_array(json_array(
           number, message_count, 0, 0, 0, NULL, message_bytes))
  FROM carray(?2) c CROSS JOIN queue q ON q.number = c.value
 WHERE ?1 > 0;

-- name: tally_all
SELECT json_group_array(json_array(
           number, message_count, 0, 0, 0, NULL, message_bytes))
  FROM queue
 WHERE ?1 > 0;
