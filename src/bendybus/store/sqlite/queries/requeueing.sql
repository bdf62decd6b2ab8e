-- Messages that begin anew in another queue of the store. See messages.sql for what all keep to.

-- name: reserve_places
UPDATE queue SET next_counter = next_counter + ?2, message_count = message_count + ?2
 WHERE number = ?1
RETURNING next_counter - ?2;

-- name: requeue_messages
-- What the checksum is made of stays: the body's row, and the time of enqueueing.
INSERT INTO message
       (id, queue, state, delivery_count, enqueued_at, expires_at, body, size,
        session_id, partition_key, marks, by_session)
SELECT ?1 + given.key, ?2, 0, 0, m.enqueued_at, given.value ->> 1, m.body, m.size,
       m.session_id, m.partition_key, given.value ->> 2, ?4
  FROM json_each(?3) given CROSS JOIN message m ON m.id = given.value ->> 0;

-- name: requeue_plain_messages
INSERT INTO message
       (id, queue, state, delivery_count, enqueued_at, body, size, session_id, partition_key,
        by_session)
SELECT ?1 + c.rowid - 1, ?2, 0, 0, m.enqueued_at, m.body, m.size, m.session_id, m.partition_key,
       ?4
  FROM carray(?3) c CROSS JOIN message m ON m.id = c.value;

-- name: extent
SELECT message_count, message_bytes, next_counter,
       min(ifnull((SELECT min(id) FROM message WHERE id >= ?2 AND id < ?3), ?3),
           ifnull((SELECT min(first) FROM run WHERE first >= ?2 AND first < ?3), ?3),
           ifnull((SELECT min(first) FROM pack WHERE first >= ?2 AND first < ?3), ?3))
  FROM queue WHERE number = ?1;
