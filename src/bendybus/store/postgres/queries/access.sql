-- Access rules of namespaces. Those of single entities are among their properties.

-- name: access
SELECT namespace, version, rules FROM access;

-- name: put_access
INSERT INTO access (namespace, version, rules) VALUES ($1::text, $2::bigint, $3::text)
ON CONFLICT (lower(namespace)) DO UPDATE SET version = $2::bigint, rules = $3::text
 WHERE access.version < $2::bigint;

-- Of a namespace that is removed, and is called here what it is called there.
-- name: remove_access
DELETE FROM access
 WHERE lower(namespace) = (SELECT lower(name) FROM entity WHERE number = $1::bigint AND kind = 'namespace');
