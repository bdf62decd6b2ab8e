-- When entities were last used, give or take some: by whichever front end.

-- name: note_uses
INSERT INTO use (entity, used_at) SELECT value, ?2 FROM carray(?1) WHERE true
ON CONFLICT (entity) DO UPDATE SET used_at = ?2 WHERE used_at < ?2;

-- name: uses
SELECT json_group_array(json_array(entity, used_at)) FROM use;

-- name: forget_use
DELETE FROM use WHERE entity = ?1;
