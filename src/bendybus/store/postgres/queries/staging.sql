-- Staged messages: chunks in the stores that they are for, stages and writers at their home.
-- See model/staging.py for the states of a stage. Where a stage or a writer is named, its state is
-- compared as `state + 0`, or a batch by IS NOT DISTINCT FROM: so that no index of all that are in
-- this state is read in its place.

-- name: writer_published
SELECT published, batch FROM writer WHERE queue = $1::bigint AND name = $2::text;

-- name: open_stage
INSERT INTO stage (number, queue, writer, batch, opened_at, state)
VALUES ($1::bigint, $2::bigint, $3::text, $4::bigint, $5::bigint, 0);

-- name: staged_bytes
SELECT coalesce(sum(size), 0)::bigint FROM staged WHERE queue = $1::bigint;

-- name: keep_chunk
INSERT INTO staged (queue, stage, ordinal, messages, size, checksum, fields, sizes, contents)
VALUES ($1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::text,
        $8::bytea, $9::bytea);

-- name: complete_stage
UPDATE stage SET state = 1, messages = $2::bigint, fragments = $3::text
 WHERE number = $1::bigint AND state + 0 = 0 RETURNING 1;

-- name: complete_stages_of
SELECT coalesce(json_agg(number ORDER BY number), '[]') FROM stage
 WHERE number = ANY ($4::bigint[]) AND queue = $1::bigint AND writer = $2::text
   AND batch = $3::bigint AND state + 0 = 1;

-- name: decide_stages
UPDATE stage SET state = 2 WHERE number = ANY ($1::bigint[]);

-- name: decide
INSERT INTO writer (queue, name, published, batch, used_at)
VALUES ($1::bigint, $2::text, -1, $3::bigint, $4::bigint)
    ON CONFLICT (queue, name) DO UPDATE SET batch = excluded.batch, used_at = excluded.used_at;

-- name: decided_stages
SELECT coalesce(json_agg(number ORDER BY number), '[]'), coalesce(sum(messages), 0)::bigint,
       coalesce(json_agg(fragments::json ORDER BY number), '[]')
  FROM stage WHERE queue = $1::bigint AND writer = $2::text AND batch = $3::bigint AND state = 2;

-- name: conclude
UPDATE writer SET published = greatest(published, $3::bigint), batch = NULL, used_at = $4::bigint
 WHERE queue = $1::bigint AND name = $2::text AND batch IS NOT DISTINCT FROM $3::bigint
RETURNING 1;

-- name: forget_decided
DELETE FROM stage
 WHERE queue = $1::bigint AND writer = $2::text AND batch = $3::bigint AND state = 2;

-- name: outdate_stages
UPDATE stage SET state = 3
 WHERE queue = $1::bigint AND writer = $2::text AND batch <= $3::bigint AND state + 0 < 2;

-- name: abandon_stages
UPDATE stage SET state = 3
 WHERE number = ANY ($3::bigint[]) AND queue = $1::bigint AND writer = $2::text AND state + 0 < 2;

-- name: expire_stages
UPDATE stage SET state = 3
 WHERE number = ANY (ARRAY (SELECT number FROM stage
                             WHERE state < 2 AND opened_at <= $1::bigint
                             ORDER BY opened_at LIMIT $2::bigint));

-- name: unfinished
SELECT coalesce(json_agg(json_build_array(queue, name, batch) ORDER BY queue, name), '[]')
  FROM writer WHERE batch IS NOT NULL;

-- name: staged_tally
SELECT (SELECT coalesce(sum(size), 0)::bigint FROM staged),
       (SELECT count(*) FROM writer WHERE batch IS NOT NULL);

-- name: stale_stages
SELECT coalesce(json_agg(json_build_array(number, queue)), '[]')
  FROM (SELECT number, queue FROM stage WHERE state = 3 LIMIT $1::bigint) AS stale;

-- name: next_chunk
SELECT id, stage, ordinal, messages, checksum, fields, sizes, contents
  FROM staged
 WHERE queue = $1::bigint AND stage = $2::bigint ORDER BY ordinal LIMIT 1;

-- name: first_stage_with_chunks
SELECT c.value
  FROM unnest($2::bigint[]) WITH ORDINALITY AS c (value, place)
 WHERE EXISTS (SELECT 1 FROM staged s WHERE s.queue = $1::bigint AND s.stage = c.value)
 ORDER BY c.place LIMIT 1;

-- name: drop_chunk
DELETE FROM staged WHERE id = $1::bigint RETURNING 1;

-- name: drop_stage
DELETE FROM staged
 WHERE id = ANY (ARRAY (SELECT id FROM staged
                         WHERE queue = $1::bigint AND stage = $2::bigint
                         ORDER BY ordinal LIMIT $3::bigint));

-- name: forget_stage
DELETE FROM stage WHERE number = $1::bigint AND state + 0 = 3;

-- name: forget_writers
DELETE FROM writer
 WHERE (queue, name) IN (SELECT queue, name FROM writer
                          WHERE batch IS NULL AND used_at <= $1::bigint
                          ORDER BY used_at LIMIT $2::bigint);

-- name: staged_of_queue
SELECT coalesce(json_agg(id), '[]')
  FROM (SELECT id FROM staged WHERE queue = $1::bigint
         ORDER BY stage, ordinal LIMIT $2::bigint) AS found;

-- name: remove_staged
DELETE FROM staged WHERE id = ANY ($1::bigint[]);

-- name: remove_stages
DELETE FROM stage WHERE queue = $1::bigint;

-- name: remove_writers
DELETE FROM writer WHERE queue = $1::bigint;
