-- The catalog: entities, and which queues of theirs are here.

-- name: put_entity
WITH given AS (UPDATE number_given SET highest = $1::bigint
                WHERE kind = 'entity' AND highest < $1::bigint)
INSERT INTO entity
       (number, namespace, name, kind, topic, version, properties, declared_rules, places,
        is_removed, created_at, updated_at)
VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::bigint, $6::bigint, $7::text, $8::text,
        $9::text, $10::bigint, $11::bigint, $12::bigint)
ON CONFLICT (number) DO UPDATE
   SET namespace = $2::text, name = $3::text, version = $6::bigint, properties = $7::text,
       declared_rules = $8::text, is_removed = $10::bigint, created_at = $11::bigint,
       updated_at = $12::bigint;

-- Fragments of a subscription here whose topic has none here.
-- name: missing_beside
SELECT count(*) FROM queue q
 WHERE q.entity = $1::bigint
   AND NOT EXISTS (SELECT 1 FROM queue t WHERE t.entity = $2::bigint AND t.fragment = q.fragment);

-- name: prepare
INSERT INTO prepared (number, entity) VALUES ($1::bigint, $2::text);

-- name: prepared
SELECT number, entity FROM prepared ORDER BY number;

-- name: forget_prepared
DELETE FROM prepared;

-- name: put_queue
WITH given AS (UPDATE number_given SET highest = $1::bigint
                WHERE kind = 'queue' AND highest < $1::bigint)
INSERT INTO queue (number, entity, fragment, sub_queue)
SELECT $1::bigint, $2::bigint, $3::bigint, $4::bigint
 WHERE NOT EXISTS (SELECT 1 FROM queue
                    WHERE number = $1::bigint AND entity = $2::bigint AND fragment = $3::bigint
                      AND sub_queue = $4::bigint);

-- name: entities
SELECT number, namespace, name, kind, topic, version, properties, declared_rules, places,
       is_removed, created_at, updated_at
  FROM entity ORDER BY number;

-- name: versions
SELECT coalesce(json_agg(json_build_array(number, version)), '[]') FROM entity;

-- name: queues
-- Looked for as text: PostgreSQL does not read JSON in which some property has a U+0000. Within a
-- text of the JSON the quotes would stand behind backslashes.
SELECT q.number, e.topic, q.entity, q.fragment, q.sub_queue,
       coalesce(position('"requires_session": true' IN e.properties) > 0, false)
  FROM queue q LEFT JOIN entity e ON e.number = q.entity ORDER BY q.number;

-- name: numbers_given
SELECT coalesce(max(highest) FILTER (WHERE kind = 'entity'), 0),
       coalesce(max(highest) FILTER (WHERE kind = 'queue'), 0)
  FROM number_given;

-- name: queues_of_entity
SELECT coalesce(json_agg(number ORDER BY number), '[]') FROM queue WHERE entity = $1::bigint;

-- name: find_any
SELECT coalesce(json_agg(id), '[]'), coalesce(json_agg(body), '[]'),
       coalesce(sum(size), 0)::bigint
  FROM (SELECT id, body, size FROM message WHERE id >= $1::bigint AND id < $2::bigint
         ORDER BY id LIMIT $3::bigint) AS found;

-- name: remove_sessions
DELETE FROM session
 WHERE ctid = ANY (ARRAY (SELECT ctid FROM session WHERE queue = $1::bigint
                           ORDER BY session_id LIMIT $2::bigint));

-- name: remove_deliveries
DELETE FROM delivered
 WHERE nonce = ANY (ARRAY (SELECT nonce FROM session WHERE queue = $1::bigint
                            ORDER BY session_id LIMIT $2::bigint));

-- name: has_sessions
SELECT EXISTS (SELECT 1 FROM session WHERE queue = $1::bigint);

-- name: remove_queues
DELETE FROM queue WHERE entity = $1::bigint;

-- name: remove_entity
DELETE FROM entity WHERE number = $1::bigint;
