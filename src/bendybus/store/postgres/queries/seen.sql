-- The ids that duplicate detection saw. Front ends share them, so they are looked up here and not
-- in anybody's memory.

-- name: note_seen
-- Those that were not seen since, or never, are seen now, and come back one after the other.
WITH new AS (
       INSERT INTO seen_id (queue, digest, seen_at)
       SELECT $1::bigint, digest, $3::bigint FROM unnest($2::bytea[]) AS given (digest)
       ON CONFLICT (queue, digest) DO UPDATE SET seen_at = $3::bigint
        WHERE seen_id.seen_at <= $4::bigint
       RETURNING digest)
SELECT coalesce(string_agg(digest, ''::bytea), ''::bytea) FROM new;

-- name: forget_seen
-- By their places, which nobody changes meanwhile: only who has the turn writes.
DELETE FROM seen_id
 WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM seen_id
        WHERE queue >= $1::bigint AND queue <= $1::bigint AND seen_at <= $2::bigint
        ORDER BY queue, seen_at LIMIT $3::bigint));

-- name: first_seen
SELECT coalesce((SELECT seen_at FROM seen_id
                  WHERE queue >= $1::bigint AND queue <= $1::bigint
                  ORDER BY queue, seen_at LIMIT 1), 0);
