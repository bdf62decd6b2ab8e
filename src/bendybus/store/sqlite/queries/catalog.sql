-- The catalog: entities, and which queues of theirs are here.

-- name: put_entity
INSERT INTO entity
       (number, name, kind, topic, version, properties, declared_rules, places, is_removed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (number) DO UPDATE
   SET name = ?2, version = ?5, properties = ?6, declared_rules = ?7, is_removed = ?9;

-- name: put_queue
INSERT INTO queue (number, entity, fragment, sub_queue)
SELECT ?1, ?2, ?3, ?4
 WHERE NOT EXISTS (SELECT 1 FROM queue
                    WHERE number = ?1 AND entity = ?2 AND fragment = ?3 AND sub_queue = ?4);

-- name: entities
SELECT number, name, kind, topic, version, properties, declared_rules, places, is_removed
  FROM entity ORDER BY number;

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
   AND session_id IN (SELECT session_id FROM session WHERE queue = ?1 LIMIT ?2);

-- name: has_sessions
SELECT EXISTS (SELECT 1 FROM session WHERE queue = ?1);

-- name: remove_queues
DELETE FROM queue WHERE entity = ?1;

-- name: remove_entity
DELETE FROM entity WHERE number = ?1;
