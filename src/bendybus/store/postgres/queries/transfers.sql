-- Messages that came from another queue (see transfers.py).

-- name: known_transfers
-- Which of them are known, and how many of the entities on their way stand as they are said to.
SELECT (SELECT coalesce(json_agg(place - 1 ORDER BY place), '[]')
          FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY AS given (value, place)
         CROSS JOIN LATERAL (
               SELECT 1 FROM transfer
                WHERE source = (value ->> 0)::bigint AND sequence = (value ->> 1)::bigint
               OFFSET 0) AS known),
       (SELECT count(*)
          FROM jsonb_array_elements($2::jsonb) AS given (value)
         CROSS JOIN LATERAL (
               SELECT number FROM entity
                WHERE number = (value ->> 0)::bigint AND version = (value ->> 1)::bigint
               OFFSET 0) AS standing
         WHERE NOT EXISTS (
               SELECT 1 FROM prepared WHERE prepared.number = standing.number OFFSET 0));

-- name: remember_transfers
INSERT INTO transfer (source, sequence, made_at)
SELECT (value ->> 0)::bigint, (value ->> 1)::bigint, $2::bigint
  FROM jsonb_array_elements($1::jsonb) AS given (value);

-- name: forget_transfers
-- By their places, which nobody changes meanwhile: only who has the turn writes.
DELETE FROM transfer
 WHERE ctid = ANY (ARRAY(
       SELECT known.place FROM jsonb_array_elements($1::jsonb) AS given (value)
        CROSS JOIN LATERAL (
              SELECT ctid AS place FROM transfer
               WHERE source = (value ->> 0)::bigint AND sequence = (value ->> 1)::bigint
              OFFSET 0) AS known));

-- name: transfers
SELECT coalesce(json_agg(json_build_array(source, sequence) ORDER BY source, sequence), '[]')
  FROM (SELECT source, sequence FROM transfer
         WHERE (source, sequence) > ($1::bigint, $2::bigint) AND made_at <= $3::bigint
         ORDER BY source, sequence LIMIT $4::bigint) AS found;

-- name: end_holds
WITH freed AS (
       UPDATE message SET locked_until = NULL, nonce = NULL WHERE locked_until = $1::bigint
       RETURNING queue)
UPDATE queue SET free_from = 0 WHERE number = ANY (ARRAY(SELECT queue FROM freed));

-- name: occupied
SELECT coalesce(json_agg(number ORDER BY number), '[]')
  FROM queue WHERE sub_queue = $1::bigint AND message_count > 0;
