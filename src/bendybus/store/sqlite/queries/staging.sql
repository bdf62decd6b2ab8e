-- Staged messages: chunks in the stores that they are for, stages and writers at their home.
-- See model/staging.py for the states of a stage.

-- name: writer_published
SELECT published, batch FROM writer WHERE queue = ?1 AND name = ?2;

-- name: open_stage
INSERT INTO stage (number, queue, writer, batch, opened_at, state) VALUES (?1, ?2, ?3, ?4, ?5, 0);

-- name: staged_bytes
SELECT coalesce(sum(size), 0) FROM staged INDEXED BY staged_size
 WHERE queue = ?1 AND stage >= 0;

-- name: keep_chunk
INSERT INTO staged (queue, stage, ordinal, messages, size, checksum, fields, sizes, contents)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: complete_stage
UPDATE stage SET state = 1, messages = ?2, fragments = ?3
 WHERE number = ?1 AND state = 0 RETURNING 1;

-- name: complete_stages_of
SELECT json_group_array(number) FROM stage
 WHERE number IN carray(?4) AND queue = ?1 AND writer = ?2 AND batch = ?3 AND state = 1;

-- name: decide_stages
UPDATE stage SET state = 2 WHERE number IN carray(?1);

-- name: decide
INSERT INTO writer (queue, name, published, batch, used_at) VALUES (?1, ?2, -1, ?3, ?4)
    ON CONFLICT (queue, name) DO UPDATE SET batch = excluded.batch, used_at = excluded.used_at;

-- name: decided_stages
SELECT json_group_array(number), coalesce(sum(messages), 0), json_group_array(json(fragments))
  FROM (SELECT * FROM stage INDEXED BY stage_of_writer
         WHERE queue = ?1 AND writer = ?2 AND batch = ?3 AND state = 2 ORDER BY number);

-- name: conclude
UPDATE writer SET published = max(published, ?3), batch = NULL, used_at = ?4
 WHERE queue = ?1 AND name = ?2 AND batch = ?3 RETURNING 1;

-- name: forget_decided
DELETE FROM stage WHERE queue = ?1 AND writer = ?2 AND batch = ?3 AND state = 2;

-- name: outdate_stages
UPDATE stage SET state = 3 WHERE queue = ?1 AND writer = ?2 AND batch <= ?3 AND state < 2;

-- name: abandon_stages
UPDATE stage SET state = 3
 WHERE number IN carray(?3) AND queue = ?1 AND writer = ?2 AND state < 2;

-- name: expire_stages
UPDATE stage SET state = 3
 WHERE number IN (SELECT number FROM stage INDEXED BY stage_age
                   WHERE state < 2 AND opened_at <= ?1 ORDER BY opened_at LIMIT ?2);

-- name: unfinished
SELECT json_group_array(json_array(queue, name, batch)) FROM writer INDEXED BY writer_deciding
 WHERE batch IS NOT NULL;

-- name: staged_tally
SELECT (SELECT coalesce(sum(size), 0) FROM staged INDEXED BY staged_size WHERE stage >= 0),
       (SELECT count(*) FROM writer INDEXED BY writer_deciding WHERE batch IS NOT NULL);

-- name: stale_stages
SELECT json_group_array(json_array(number, queue))
  FROM (SELECT number, queue FROM stage INDEXED BY stage_stale WHERE state = 3 LIMIT ?1);

-- name: next_chunk
SELECT id, stage, ordinal, messages, checksum, fields, sizes, contents
  FROM staged INDEXED BY staged_order
 WHERE queue = ?1 AND stage = ?2 ORDER BY ordinal LIMIT 1;

-- name: first_stage_with_chunks
SELECT c.value
  FROM carray(?2) c
 WHERE EXISTS (SELECT 1 FROM staged INDEXED BY staged_order WHERE queue = ?1 AND stage = c.value)
 LIMIT 1;

-- name: drop_chunk
DELETE FROM staged WHERE id = ?1 AND stage >= 0 RETURNING 1;

-- name: drop_stage
DELETE FROM staged
 WHERE id IN (SELECT id FROM staged INDEXED BY staged_order
               WHERE queue = ?1 AND stage = ?2 LIMIT ?3);

-- name: forget_stage
DELETE FROM stage WHERE number = ?1 AND state = 3;

-- name: forget_writers
DELETE FROM writer
 WHERE (queue, name) IN (SELECT queue, name FROM writer INDEXED BY writer_age
                          WHERE batch IS NULL AND used_at <= ?1 ORDER BY used_at LIMIT ?2);

-- name: staged_of_queue
SELECT json_group_array(id)
  FROM (SELECT id FROM staged INDEXED BY staged_order
         WHERE queue = ?1 AND stage >= 0 LIMIT ?2);

-- name: remove_staged
DELETE FROM staged WHERE id IN carray(?1);

-- name: remove_stages
DELETE FROM stage WHERE queue = ?1;

-- name: remove_writers
DELETE FROM writer WHERE queue = ?1;
