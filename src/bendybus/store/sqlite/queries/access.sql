-- Access rules of namespaces. Those of single entities are among their properties.

-- name: access
SELECT namespace, version, rules FROM access;

-- name: put_access
INSERT INTO access (namespace, version, rules) VALUES (?1, ?2, ?3)
ON CONFLICT (namespace) DO UPDATE SET version = ?2, rules = ?3 WHERE version < ?2;

-- Of a namespace that is removed, and is called here what it is called there.
-- name: remove_access
DELETE FROM access
 WHERE namespace = (SELECT name FROM entity WHERE number = ?1 AND kind = 'namespace');
