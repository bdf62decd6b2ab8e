-- When entities were last used, give or take some: by whichever front end.

-- name: note_uses
INSERT INTO use (entity, used_at) SELECT DISTINCT c.value, $2::bigint
  FROM unnest($1::bigint[]) AS c (value)
ON CONFLICT (entity) DO UPDATE SET used_at = excluded.used_at
 WHERE use.used_at < excluded.used_at;

-- name: uses
SELECT coalesce(json_agg(json_build_array(entity, used_at)), '[]') FROM use;

-- name: forget_use
DELETE FROM use WHERE entity = $1::bigint;
