-- Packs: messages that were written in bulk and nobody has looked at yet. Their contents are
-- published chunks, whose stage is below nought.

-- name: next_chunks
-- Without their messages.
SELECT json_group_array(json_array(id, ordinal, messages, checksum, fields))
  FROM (SELECT * FROM staged INDEXED BY staged_order
         WHERE queue = ?1 AND stage = ?2 ORDER BY ordinal LIMIT ?3);

-- name: staged_chunk
SELECT messages, size FROM staged WHERE id = ?1 AND queue = ?2 AND stage >= 0;

-- name: publish_chunk
-- As long as before, so that no page is written but those of the stage and of its index.
UPDATE staged SET stage = -1 - stage WHERE id = ?1;

-- name: published_chunk
SELECT queue, -1 - stage, ordinal, messages, checksum, fields, sizes, contents
  FROM staged WHERE id = ?1 AND stage < 0;

-- name: keep_pack
INSERT INTO pack (first, length, chunk, start, size, enqueued_at, expires_at, checksum)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: oldest_packs
SELECT json_group_array(json_array(
           first, length, chunk, start, size, enqueued_at, expires_at, reservation, checksum))
  FROM (SELECT *, sum(length) OVER (ORDER BY first) - length AS before
          FROM (SELECT * FROM pack INDEXED BY pack_free
                 WHERE first >= ?1 AND first < ?2 AND reservation IS NULL AND is_damaged = 0
                   AND (expires_at IS NULL OR expires_at > ?4)
                 ORDER BY first LIMIT ?3))
 WHERE before < ?3;

-- name: packs_from
-- Also the one that began before the row and reaches beyond it; none that come behind enough rows.
SELECT json_group_array(json_array(
           first, length, chunk, start, size, enqueued_at, expires_at, reservation, checksum))
  FROM (SELECT *, sum(beyond) OVER (ORDER BY first) - beyond AS before
          FROM (SELECT *, first + length - max(first, ?4) AS beyond FROM pack
                 WHERE first >= ifnull((SELECT max(first) FROM pack
                                         WHERE first >= ?1 AND first <= ?4), ?4)
                   AND first < ?2 AND first + length > ?4 AND is_damaged = 0
                   AND first <= ifnull((SELECT id FROM message WHERE id >= ?4 AND id < ?2
                                         ORDER BY id LIMIT 1 OFFSET ?3 - 1), ?2)
                 ORDER BY first LIMIT ?3))
 WHERE before < ?3;

-- name: packs_around
SELECT json_group_array(json_array(
           p.first, p.length, p.chunk, p.start, p.size, p.enqueued_at, p.expires_at, p.reservation,
           p.checksum))
  FROM carray(?1) c CROSS JOIN pack p
    ON p.first = (SELECT max(first) FROM pack WHERE first <= c.value)
 WHERE c.value < p.first + p.length AND p.is_damaged = 0;

-- name: expired_packs
-- One after the other: what is made of one is seen to before the next.
SELECT json_group_array(json_array(
           first, length, chunk, start, size, enqueued_at, expires_at, reservation, checksum))
  FROM (SELECT * FROM pack INDEXED BY pack_expiring
         WHERE expires_at <= ?1 AND reservation IS NULL AND is_damaged = 0
           AND NOT EXISTS (SELECT 1 FROM message INDEXED BY message_expiring
                            WHERE expires_at <= ?1 AND locked_until IS NULL AND state = 0)
         ORDER BY expires_at LIMIT ?2);

-- name: reserved_packs
SELECT json_group_array(json_array(
           first, length, chunk, start, size, enqueued_at, expires_at, reservation, checksum))
  FROM pack INDEXED BY pack_reserved WHERE reservation = ?1;

-- name: any_packs
SELECT json_group_array(json_array(
           first, length, chunk, start, size, enqueued_at, expires_at, reservation, checksum))
  FROM (SELECT * FROM pack WHERE is_damaged = 0 ORDER BY first LIMIT ?1);

-- name: packs_of
SELECT json_group_array(json_array(
           first, length, chunk, start, size, enqueued_at, expires_at, reservation, checksum))
  FROM (SELECT * FROM pack WHERE first >= ?1 AND first < ?2 ORDER BY first LIMIT ?3);

-- name: has_packs
SELECT EXISTS (SELECT 1 FROM pack WHERE first >= ?1 AND first < ?2);

-- name: are_free_before
-- Whether so many messages have rows that come before one.
SELECT EXISTS (SELECT 1 FROM message INDEXED BY message_free
                WHERE queue = ?1 AND state = 0 AND locked_until IS NULL AND by_session IS NULL
                  AND id < ?2
                LIMIT 1 OFFSET ?3 - 1);

-- name: reserve_pack
UPDATE pack SET reservation = ?2 WHERE first = ?1;

-- name: shorten_pack
UPDATE pack SET length = ?2, size = ?3, checksum = ?4 WHERE first = ?1;

-- name: forget_chunks
-- Of which no part is a pack any more.
DELETE FROM staged
 WHERE id IN carray(?1)
   AND NOT EXISTS (SELECT 1 FROM pack INDEXED BY pack_chunk WHERE chunk = staged.id);

-- name: reserve_stretch
UPDATE message SET state = 3, nonce = ?3 WHERE id >= ?1 AND id < ?2;

-- name: forget_packs
DELETE FROM pack WHERE first IN carray(?1);

-- name: set_aside_pack
UPDATE pack SET is_damaged = 1 WHERE first = ?1;

-- name: queues_with_packs
SELECT number FROM queue
 WHERE EXISTS (SELECT 1 FROM pack WHERE first >= number << ?1 AND first < (number + 1) << ?1);

-- name: scan_packs
SELECT json_group_array(json_array(
           first, length, chunk, start, size, enqueued_at, expires_at, reservation, checksum))
  FROM (SELECT * FROM pack
         WHERE first >= ifnull((SELECT max(first) FROM pack WHERE first >= ?1 AND first <= ?3), ?3)
           AND first < ?2 AND first + length > ?3 AND is_damaged = 0
         ORDER BY first LIMIT 16);

-- name: scan_reserved_pack
SELECT json_group_array(json_array(
           first, length, chunk, start, size, enqueued_at, expires_at, reservation, checksum))
  FROM pack INDEXED BY pack_reserved WHERE reservation = ?1 AND is_damaged = 0;

-- name: scan_chunk
SELECT queue, -1 - stage, ordinal, messages, checksum, fields,
       iif(?2, sizes, NULL), iif(?3, contents, NULL)
  FROM staged WHERE id = ?1 AND stage < 0;
