-- Scans: many messages as columns, on a connection of their own.
--
-- A column of numbers comes as bytes, eight or four for each number, the highest first. There is no
-- LIMIT, because ids are unique: a range of ids has at most as many rows as ids. What is asked for
-- by ids comes in the order that they are given in: of each, one value is looked up.

-- name: scan_rows
-- Packed: the id less the first (20 bits), the state (4 bits), the size of the content (28 bits).
-- What few messages have is only counted; who finds some asks for them.
SELECT count(*),
       string_agg(int8send((id - $1::bigint) + (state << 20) + (size << 24)), ''::bytea),
       string_agg(int8send(enqueued_at), ''::bytea),
       max(delivery_count), count(*) FILTER (WHERE body <> id), count(expires_at),
       count(session_id) + count(partition_key), count(marks)
  FROM (SELECT * FROM message
         WHERE id >= $1::bigint AND id < $2::bigint AND state <> 9 ORDER BY id) AS found;

-- name: scan_chosen_rows
SELECT count(*),
       string_agg(int8send((id - $1::bigint) + (state << 20) + (size << 24)), ''::bytea),
       string_agg(int8send(enqueued_at), ''::bytea),
       max(delivery_count), count(*) FILTER (WHERE body <> id), count(expires_at),
       count(session_id) + count(partition_key), count(marks)
  FROM (SELECT * FROM message
         WHERE id >= $1::bigint AND id < $2::bigint AND state <> 9
           AND ($3::jsonb IS NULL
                OR state = ANY (ARRAY (SELECT jsonb_array_elements_text($3::jsonb)::bigint)))
           AND enqueued_at >= $4::bigint AND enqueued_at < $5::bigint
           AND ($6::jsonb IS NULL
                OR session_id = ANY (ARRAY (SELECT jsonb_array_elements_text($6::jsonb))))
           AND ($7::jsonb IS NULL
                OR partition_key = ANY (ARRAY (SELECT jsonb_array_elements_text($7::jsonb))))
         ORDER BY id) AS found;

-- name: scan_reserved_rows
-- Those of a reservation may be far from each other; their ids come in full, last.
SELECT count(*),
       string_agg(int8send((state << 20) + (size << 24)), ''::bytea),
       string_agg(int8send(enqueued_at), ''::bytea),
       max(delivery_count), count(*) FILTER (WHERE body <> id), count(expires_at),
       count(session_id) + count(partition_key), count(marks),
       string_agg(int8send(id - $1::bigint), ''::bytea)
  FROM (SELECT * FROM message
         WHERE (nonce, id) >= ($3::bigint, $1::bigint) AND (nonce, id) < ($3::bigint, $2::bigint)
           AND nonce IS NOT NULL AND state = 3 AND locked_until IS NULL
         ORDER BY nonce, id) AS reserved;

-- name: chosen_ids
SELECT coalesce(json_agg(id ORDER BY id), '[]')
  FROM message
 WHERE id >= $1::bigint AND id < $2::bigint
   AND ($3::jsonb IS NULL
        OR state = ANY (ARRAY (SELECT jsonb_array_elements_text($3::jsonb)::bigint)))
   AND enqueued_at >= $4::bigint AND enqueued_at < $5::bigint
   AND ($6::jsonb IS NULL
        OR session_id = ANY (ARRAY (SELECT jsonb_array_elements_text($6::jsonb))))
   AND ($7::jsonb IS NULL
        OR partition_key = ANY (ARRAY (SELECT jsonb_array_elements_text($7::jsonb))));

-- name: scan_runs
SELECT coalesce(json_agg(json_build_array(first, length, body, enqueued_at, expires_at, checksum)
                         ORDER BY first), '[]')
  FROM run WHERE first >= $1::bigint AND first < $2::bigint AND is_damaged = 0;

-- name: scan_run_sizes
SELECT string_agg(int4send(b.size), ''::bytea)
  FROM jsonb_array_elements($1::jsonb) AS r
 CROSS JOIN LATERAL
       (SELECT octet_length(content) AS size FROM body
         WHERE id >= (r.value ->> 0)::bigint AND id < (r.value ->> 1)::bigint
         ORDER BY id OFFSET 0) AS b;

-- name: scan_next
SELECT (SELECT id FROM message WHERE id >= $1::bigint AND id < $2::bigint ORDER BY id LIMIT 1),
       (SELECT first FROM run WHERE first >= $1::bigint AND first < $2::bigint
         ORDER BY first LIMIT 1);

-- name: scan_end
-- Where so many messages have been passed.
SELECT id FROM message WHERE id >= $1::bigint AND id < $2::bigint
 ORDER BY id LIMIT 1 OFFSET $3::bigint;

-- name: scan_keys
-- A message of a run has no row yet, and no keys.
SELECT string_agg(int4send(1 + coalesce(octet_length(m.session_id), -1)), ''::bytea),
       string_agg(convert_to(m.session_id, 'UTF8'), ''::bytea),
       string_agg(int4send(1 + coalesce(octet_length(m.partition_key), -1)), ''::bytea),
       string_agg(convert_to(m.partition_key, 'UTF8'), ''::bytea)
  FROM unnest($1::bigint[]) AS c (value)
  LEFT JOIN LATERAL (SELECT session_id, partition_key FROM message
                      WHERE id = c.value OFFSET 0) AS m ON true;

-- name: scan_marks
SELECT string_agg(int4send(1 + coalesce(octet_length(m.marks), -1)), ''::bytea),
       string_agg(convert_to(m.marks, 'UTF8'), ''::bytea)
  FROM unnest($1::bigint[]) AS c (value)
  LEFT JOIN LATERAL (SELECT marks FROM message WHERE id = c.value OFFSET 0) AS m ON true;

-- name: scan_lives
SELECT string_agg(int8send(1 + coalesce(m.expires_at, -1)), ''::bytea)
  FROM unnest($1::bigint[]) AS c (value)
 CROSS JOIN LATERAL (SELECT expires_at FROM message WHERE id = c.value OFFSET 0) AS m;

-- name: scan_delivery_counts
SELECT string_agg(int8send((SELECT delivery_count FROM message m WHERE m.id = c.value)),
                  ''::bytea)
  FROM unnest($1::bigint[]) AS c (value);

-- name: scan_body_span
SELECT min(m.body - m.id), max(m.body - m.id) FROM message m WHERE m.id = ANY ($1::bigint[]);

-- name: scan_body_ids
SELECT coalesce(json_agg((SELECT body FROM message m WHERE m.id = c.value)), '[]')
  FROM unnest($1::bigint[]) AS c (value);

-- name: scan_bodies
-- Without their lengths, which the rows of messages know.
SELECT string_agg(content, ''::bytea)
  FROM (SELECT content FROM body WHERE id >= $1::bigint AND id < $2::bigint ORDER BY id) AS found;

-- name: scan_bodies_of
SELECT string_agg((SELECT content FROM body b WHERE b.id = c.value), ''::bytea)
  FROM unnest($1::bigint[]) AS c (value);

-- name: scan_fragment
SELECT fragment FROM queue WHERE number = $1::bigint;
