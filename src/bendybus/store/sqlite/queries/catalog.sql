-- The catalog: entities, and which queues of theirs are here.

-- name: put_entity
INSERT INTO entity
       (number, namespace, name, kind, topic, version, properties, declared_rules, places,
        is_removed, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (number) DO UPDATE
   SET namespace = ?2, name = ?3, version = ?6, properties = ?7, declared_rules = ?8,
       is_removed = ?10, created_at = ?11, updated_at = ?12;

-- Fragments of a subscription here whose topic has none here.
-- name: missing_beside
SELECT count(*) FROM queue q
 WHERE q.entity = ?1
   AND NOT EXISTS (SELECT 1 FROM queue t WHERE t.entity = ?2 AND t.fragment = q.fragment);

-- name: prepare
INSERT INTO prepared (number, entity) VALUES (?1, ?2);

-- name: prepared
SELECT number, entity FROM prepared ORDER BY number;

-- name: forget_prepared
DELETE FROM prepared;

-- name: put_queue
INSERT INTO queue (number, entity, fragment, sub_queue)
SELECT ?1, ?2, ?3, ?4
 WHERE NOT EXISTS (SELECT 1 FROM queue
                    WHERE number = ?1 AND entity = ?2 AND fragment = ?3 AND sub_queue = ?4);

-- name: entities
SELECT number, namespace, name, kind, topic, version, properties, declared_rules, places,
       is_removed, created_at, updated_at
  FROM entity ORDER BY number;

-- name: versions
SELECT json_group_array(json_array(number, version)) FROM entity;

-- name: queues
SELECT q.number, e.topic, q.entity, q.fragment, q.sub_queue, e.properties ->> 'requires_session'
  FROM queue q LEFT JOIN entity e ON e.number = q.entity ORDER BY q.number;

-- name: numbers_given
SELECT coalesce(max(seq) FILTER (WHERE name = 'entity'), 0),
       coalesce(max(seq) FILTER (WHERE name = 'queue'), 0)
  FROM sqlite_sequence;

-- name: queues_of_entity
SELECT json_group_array(number) FROM queue WHERE entity = ?1;

-- name: find_any
SELECT json_group_array(id), json_group_array(body), total(size)
  FROM (SELECT * FROM message WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3);

-- name: remove_sessions
DELETE FROM session
 WHERE queue = ?1
   AND session_id IN (SELECT session_id FROM session WHERE queue = ?1
                       ORDER BY session_id LIMIT ?2);

-- name: remove_deliveries
DELETE FROM delivered
 WHERE nonce IN (SELECT nonce FROM session WHERE queue = ?1 ORDER BY session_id LIMIT ?2);

-- name: has_sessions
SELECT EXISTS (SELECT 1 FROM session WHERE queue = ?1);

-- name: remove_queues
DELETE FROM queue WHERE entity = ?1;

-- name: remove_entity
DELETE FROM entity WHERE number = ?1;
