-- Messages whose numbers were given out before (`take_numbers` is among the statements of
-- scheduling, which uses it alike): what is left to do is to count them.

-- name: take_room
UPDATE queue
   SET message_count = message_count + $2::bigint, message_bytes = message_bytes + $3::bigint,
       free_from = 0
 WHERE number = $1::bigint AND message_bytes + $3::bigint <= $4::bigint
RETURNING 1;
