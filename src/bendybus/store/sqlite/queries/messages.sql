-- Every statement the store makes, by name.
--
-- Each touches all rows of its batch in ONE step, and what it returns comes in one row (JSON and
-- concatenated bytes). A step lets go of the interpreter lock, and getting it back from a busy
-- event loop takes up to a switch interval; paid per row, that costs more than the statement
-- (decisions/0004).

-- name: reserve_counters
UPDATE queue
   SET next_counter = next_counter + ?2, message_count = message_count + ?2,
       message_bytes = message_bytes + ?3
 WHERE number = ?1 AND message_bytes + ?3 <= ?4
RETURNING next_counter - ?2;

-- name: append_bodies
INSERT INTO body (id, content) SELECT ?1 + rowid - 1, value FROM carray(?2);

-- name: append_messages
INSERT INTO message (id, queue, state, delivery_count, enqueued_at, body, size)
SELECT ?1 + rowid - 1, ?2, 0, 0, ?3, ?1 + rowid - 1, length(value) FROM carray(?4);

-- name: find_room
SELECT next_counter, message_bytes FROM queue WHERE number = ?1;

-- name: append_whole
INSERT INTO arriving (queue, first, now, count, bytes, digests, contents)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: append_packed_bodies
INSERT INTO body (id, content)
SELECT ?1 + rowid - 1,
       CAST(ifnull(substr(?3, (value >> 32) + 1, value & 0xFFFFFFFF), '')
            || substr(?4, 4 * rowid - 3, 4) AS BLOB)
  FROM carray(?2);

-- name: append_packed
INSERT INTO message (id, queue, state, delivery_count, enqueued_at, body, size, expires_at,
                     by_session)
SELECT ?1 + rowid - 1, ?2, 0, 0, ?3, ?1 + rowid - 1, (value & 0xFFFFFFFF) + 4, ?4, ?5
  FROM carray(?6);

-- name: append_packed_keyed
INSERT INTO message (id, queue, state, delivery_count, enqueued_at, body, size, expires_at,
                     by_session, session_id, partition_key)
SELECT ?1 + c.rowid - 1, ?2, 0, 0, ?3, b.id, octet_length(b.content), ?4, ?5,
       iif(?7, c.value, NULL), iif(?8, c.value, NULL)
  FROM carray(?6) c CROSS JOIN body b ON b.id = ?1 + c.rowid - 1;

-- name: append_messages_with_fields
INSERT INTO message
       (id, queue, state, delivery_count, enqueued_at, body, size,
        expires_at, session_id, partition_key, marks, by_session)
SELECT ?1 + key, ?2, iif(value ->> 4 IS NULL, 0, 2), 0, coalesce(value ->> 4, ?3), ?1 + key,
       value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 5, ?5
  FROM json_each(?4);

-- name: find_free
SELECT json_group_array(json_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key, marks,
           body, size))
  FROM (SELECT * FROM message INDEXED BY message_free
         WHERE queue = ?1 AND state = 0 AND locked_until IS NULL AND by_session IS NULL
           AND (expires_at IS NULL OR expires_at > ?2)
         ORDER BY id LIMIT ?3);

-- name: find_free_plain
SELECT json_group_array(id), json_group_array(enqueued_at), json_group_array(delivery_count),
       json_group_array(body), total(size),
       count(expires_at) + count(session_id) + count(partition_key) + count(marks)
  FROM (SELECT * FROM message INDEXED BY message_free
         WHERE queue = ?1 AND state = 0 AND locked_until IS NULL AND by_session IS NULL
           AND (expires_at IS NULL OR expires_at > ?2)
         ORDER BY id LIMIT ?3);

-- name: read_bodies
SELECT json_group_array(octet_length(b.content)),
       CAST(group_concat(b.content, '') AS BLOB)
  FROM carray(?1) c CROSS JOIN body b ON b.id = c.value;

-- name: lock_messages
UPDATE message SET locked_until = ?2, nonce = ?3 WHERE id IN carray(?1);

-- name: defer_messages
UPDATE message SET state = 1, locked_until = NULL, nonce = NULL WHERE id IN carray(?1);

-- name: find_deferred
SELECT json_group_array(json_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key, marks,
           body, size,
           state, ?2, ?3))
  FROM message
 WHERE id IN carray(?1) AND state = 1 AND locked_until IS NULL
   AND (?4 IS NULL OR session_id = ?4);

-- name: set_aside_damaged
UPDATE message SET state = 9, locked_until = NULL, nonce = NULL WHERE id IN carray(?1);

-- name: find_guarded
SELECT count(*), total(size), json_group_array(id),
       json_group_array(body) FILTER (WHERE body <> id), count(*) FILTER (WHERE state <> 0)
  FROM message
 WHERE id IN carray(?1)
   AND CASE ?2 WHEN 'HELD' THEN nonce = ?3 AND locked_until > ?4
               WHEN 'LAPSED' THEN nonce = ?3 AND locked_until <= ?4
               WHEN 'SCHEDULED' THEN state = 2 AND enqueued_at > ?4
               WHEN 'DUE' THEN state = 2 AND enqueued_at <= ?4
               WHEN 'UNTOUCHED' THEN state = 0 AND locked_until IS NULL AND delivery_count = ?3
               WHEN 'SET_ASIDE' THEN state = 1 AND locked_until IS NULL
               WHEN 'THERE' THEN state <> 3
               ELSE locked_until IS NULL AND expires_at <= ?4 AND state NOT IN (3, 9) END;

-- name: bodies_of
SELECT json_group_array(body) FROM message WHERE id IN carray(?1);

-- name: remove_messages
DELETE FROM message WHERE id IN carray(?1);

-- name: remove_bodies
DELETE FROM body WHERE id IN carray(?1);

-- name: count_down
UPDATE queue SET message_count = message_count - ?2 WHERE number = ?1;

-- name: bytes_down
UPDATE queue SET message_bytes = message_bytes - ?2 WHERE number = ?1;

-- name: unlock_messages
UPDATE message SET locked_until = NULL, nonce = NULL, delivery_count = delivery_count + ?2
 WHERE id IN carray(?1);

-- name: renew_messages
UPDATE message SET locked_until = ?2 WHERE id IN carray(?1);

-- name: rewrite_marks
UPDATE message SET marks = ?2 WHERE id = ?1;

-- name: move_messages
UPDATE message
   SET id = ?2 + moved.key, queue = ?3, state = 0, locked_until = NULL, nonce = NULL,
       expires_at = NULL, marks = moved.value ->> 1, delivery_count = delivery_count + ?4,
       by_session = NULL
  FROM json_each(?1) AS moved
 WHERE message.id = moved.value ->> 0;

-- name: find_locked
SELECT json_group_array(json_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key, marks,
           body, size,
           state, locked_until, nonce))
  FROM message
 WHERE id IN carray(?1) AND locked_until > ?2;

-- name: browse
-- A lock on a message, or the one of its session (sessions.sql).
SELECT json_group_array(json_array(
           found.id, enqueued_at, delivery_count, expires_at, found.session_id, partition_key,
           marks, body, size, found.state,
           iif(found.locked_until < 0x4000000000000000, found.locked_until, s.locked_until),
           iif(found.locked_until < 0x4000000000000000, found.nonce, s.nonce)))
  FROM (SELECT * FROM message WHERE id >= ?1 AND id < ?2 AND state <> 9
         ORDER BY id LIMIT ?3) AS found
  LEFT JOIN session s
    ON s.queue = found.queue AND s.session_id = found.session_id
   AND CASE WHEN found.locked_until IS NOT NULL THEN s.nonce = found.nonce
            ELSE found.state = 0 AND s.nonce IS NOT found.nonce
                 AND found.id <= (SELECT until FROM delivered WHERE nonce = s.nonce) END;

-- name: ids_from
SELECT json_group_array(id)
  FROM (SELECT id FROM message WHERE id >= ?1 AND id < ?2 AND state IS NOT 9 ORDER BY id LIMIT ?3);

-- name: counts
SELECT message_count, message_bytes FROM queue WHERE number = ?1;

-- name: find
SELECT json_group_array(json_array(
           found.id, enqueued_at, delivery_count, expires_at, found.session_id, partition_key,
           marks, body, size, found.state,
           iif(found.locked_until < 0x4000000000000000, found.locked_until, s.locked_until),
           iif(found.locked_until < 0x4000000000000000, found.nonce, s.nonce)))
  FROM (SELECT * FROM message WHERE id IN carray(?1) AND state <> 9 ORDER BY id) AS found
  LEFT JOIN session s
    ON s.queue = found.queue AND s.session_id = found.session_id
   AND CASE WHEN found.locked_until IS NOT NULL THEN s.nonce = found.nonce
            ELSE found.state = 0 AND s.nonce IS NOT found.nonce
                 AND found.id <= (SELECT until FROM delivered WHERE nonce = s.nonce) END;

-- name: make_indexes_anew
REINDEX message;
