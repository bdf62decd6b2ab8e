-- Readers, and the messages that they keep for themselves. See messages.sql for what all keep to.

-- name: find_reader
SELECT token, position, committed, opened_at, active_at FROM reader WHERE queue = ?1 AND name = ?2;

-- name: count_readers
SELECT count(*) FROM reader WHERE queue = ?1;

-- name: open_reader
INSERT INTO reader (queue, name, token, opened_at, active_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (queue, name) DO UPDATE SET token = ?3, opened_at = ?4, active_at = ?5;

-- name: note_active
UPDATE reader SET active_at = ?3 WHERE queue = ?1 AND name = ?2;

-- name: note_position
UPDATE reader SET position = ?3, active_at = ?4 WHERE queue = ?1 AND name = ?2;

-- name: note_committed
UPDATE reader SET committed = ?3, active_at = ?4 WHERE queue = ?1 AND name = ?2;

-- name: forget_reader
DELETE FROM reader WHERE queue = ?1 AND name = ?2;

-- name: reservations
SELECT json_group_array(json_array(number, position, messages, bytes, made_at))
  FROM (SELECT * FROM reservation
         WHERE queue = ?1 AND reader = ?2 AND position > ?3 AND position <= ?4
         ORDER BY position LIMIT ?5);

-- name: last_reservation
SELECT number, position, messages, bytes FROM reservation
 WHERE queue = ?1 AND reader = ?2 ORDER BY position DESC LIMIT 1;

-- name: make_reservation
INSERT INTO reservation (queue, reader, position, messages, bytes, made_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
RETURNING number;

-- name: forget_reservation
DELETE FROM reservation WHERE number = ?1;

-- name: find_reservable
SELECT json_group_array(id), json_group_array(size)
  FROM (SELECT id, size FROM message INDEXED BY message_free
         WHERE queue = ?1 AND state = 0 AND locked_until IS NULL AND by_session IS NULL
           AND id < ?4 AND (expires_at IS NULL OR expires_at > ?2)
         ORDER BY id LIMIT ?3);

-- name: find_reservable_of_sessions
-- Session after session as they wait to be accepted, each from its oldest message on. The sessions
-- come third, also those that have nothing.
SELECT json_group_array(id) FILTER (WHERE id IS NOT NULL),
       json_group_array(size) FILTER (WHERE id IS NOT NULL),
       json_group_array(session_id)
  FROM (SELECT m.id, m.size, waiting.session_id
          FROM (SELECT session_id FROM session INDEXED BY session_waiting
                 WHERE queue = ?1 AND is_ready = 1 AND nonce IS NULL
                 ORDER BY waiting_since LIMIT ?3 OFFSET ?5) AS waiting
          LEFT JOIN message m INDEXED BY message_session_free
            ON m.queue = ?1 AND m.session_id = waiting.session_id AND m.session_id IS NOT NULL
           AND m.state = 0 AND m.locked_until IS NULL
           AND m.id < ?4 AND (m.expires_at IS NULL OR m.expires_at > ?2)
         LIMIT ?3);

-- name: find_chosen
SELECT json_group_array(id), json_group_array(size)
  FROM message
 WHERE id IN carray(?1) AND state = 0 AND locked_until IS NULL
   AND (expires_at IS NULL OR expires_at > ?2)
   AND (by_session IS NULL
        OR NOT EXISTS (SELECT 1 FROM session s
                        WHERE s.queue = message.queue AND s.session_id = message.session_id
                          AND s.nonce IS NOT NULL));

-- name: reserve_messages
UPDATE message SET state = 3, nonce = ?2 WHERE id IN carray(?1);

-- name: find_reserved
SELECT json_group_array(id), json_group_array(body), total(size)
  FROM message INDEXED BY message_nonce
 WHERE nonce = ?1 AND state = 3 AND locked_until IS NULL;

-- name: read_reserved
SELECT json_group_array(json_array(
           id, enqueued_at, delivery_count, expires_at, session_id, partition_key, marks,
           body, size, state, NULL, NULL))
  FROM (SELECT * FROM message INDEXED BY message_nonce
         WHERE nonce = ?1 AND state = 3 AND locked_until IS NULL AND id >= ?2
         ORDER BY id LIMIT ?3);

-- name: free_reserved
UPDATE message SET state = 0, nonce = NULL WHERE id IN carray(?1);

-- name: free_reserved_of_sessions
-- Of a session that is held, what lies before the last one given out: it comes next.
UPDATE message
   SET state = 0,
       nonce = (SELECT d.nonce FROM session s CROSS JOIN delivered d ON d.nonce = s.nonce
                 WHERE s.queue = message.queue AND s.session_id = message.session_id
                   AND d.until >= message.id)
 WHERE id IN carray(?1);

-- name: note_sessions_freed
INSERT INTO session (queue, session_id, waiting_since, is_ready)
SELECT m.queue, m.session_id, ?2, 1
  FROM carray(?1) c CROSS JOIN message m ON m.id = c.value
 WHERE m.session_id IS NOT NULL
ON CONFLICT (queue, session_id) DO UPDATE SET is_ready = 1, waiting_since = ?2 WHERE is_ready = 0;

-- name: note_sessions_emptied
UPDATE session SET is_ready = 0
 WHERE queue = ?1 AND session_id IN (SELECT value FROM json_each(?2))
   AND NOT EXISTS (SELECT 1 FROM message m INDEXED BY message_session_free
                    WHERE m.queue = ?1 AND m.session_id = session.session_id
                      AND m.state = 0 AND m.locked_until IS NULL
                      AND (m.expires_at IS NULL OR m.expires_at > ?3));

-- name: readers
SELECT json_group_array(json_array(
           r.queue, r.name, r.token, r.position, r.committed, r.opened_at, r.active_at,
           (SELECT ifnull(sum(messages), 0) FROM reservation v
             WHERE v.queue = r.queue AND v.reader = r.name),
           (SELECT ifnull(sum(bytes), 0) FROM reservation v
             WHERE v.queue = r.queue AND v.reader = r.name),
           (SELECT made_at FROM reservation v WHERE v.queue = r.queue AND v.reader = r.name
             ORDER BY position LIMIT 1)))
  FROM carray(?1) c CROSS JOIN reader r ON r.queue = c.value;

-- name: remove_readers
DELETE FROM reader WHERE queue = ?1;

-- name: remove_reservations
DELETE FROM reservation WHERE queue = ?1;
