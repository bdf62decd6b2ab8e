-- Messages whose time has not come.

-- name: take_numbers
UPDATE queue SET next_counter = next_counter + $2::bigint WHERE number = $1::bigint
RETURNING next_counter - $2::bigint;

-- name: activate_messages
-- What the checksum is made of stays: the body's row, and the time of enqueueing.
INSERT INTO message
       (id, queue, state, delivery_count, enqueued_at, expires_at, body, size,
        session_id, partition_key, marks, by_session)
SELECT $1::bigint + place - 1, m.queue, 0, m.delivery_count, m.enqueued_at, m.expires_at, m.body,
       m.size, m.session_id, m.partition_key, m.marks, m.by_session
  FROM unnest($2::bigint[]) WITH ORDINALITY AS given (id, place)
 CROSS JOIN LATERAL (SELECT * FROM message WHERE id = given.id OFFSET 0) AS m;
