-- Messages that came from another queue (see transfers.py).

-- name: known_transfers
-- Which of them are known, and how many of the entities on their way stand as they are said to.
SELECT (SELECT json_group_array(given.key)
          FROM json_each(?1) given CROSS JOIN transfer
            ON transfer.source = given.value ->> 0 AND transfer.sequence = given.value ->> 1),
       (SELECT count(*)
          FROM json_each(?2) given CROSS JOIN entity
            ON entity.number = given.value ->> 0 AND entity.version = given.value ->> 1
         WHERE NOT EXISTS (SELECT 1 FROM prepared WHERE prepared.number = entity.number));

-- name: remember_transfers
INSERT INTO transfer (source, sequence, made_at)
SELECT value ->> 0, value ->> 1, ?2 FROM json_each(?1);

-- name: forget_transfers
DELETE FROM transfer
 WHERE (source, sequence) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1));

-- name: transfers
SELECT json_group_array(json_array(source, sequence))
  FROM (SELECT source, sequence FROM transfer
         WHERE (source, sequence) > (?1, ?2) AND made_at <= ?3
         ORDER BY source, sequence LIMIT ?4);

-- name: end_holds
UPDATE message SET locked_until = NULL, nonce = NULL WHERE locked_until = ?1;

-- name: occupied
SELECT json_group_array(number) FROM queue WHERE sub_queue = ?1 AND message_count > 0;
