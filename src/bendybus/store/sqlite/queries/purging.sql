-- Messages that are deleted many at a time. Each statement looks at a bounded number of rows.

-- name: find_purgeable
SELECT max(id), count(*),
       json_group_array(json_array(id, body, size))
           FILTER (WHERE state = ?4 AND locked_until IS NULL AND enqueued_at <= ?5)
  FROM (SELECT * FROM message WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3);

-- name: find_purgeable_of_session
SELECT max(id), count(*),
       json_group_array(json_array(id, body, size))
           FILTER (WHERE state = ?4 AND locked_until IS NULL AND enqueued_at <= ?5)
  FROM (SELECT * FROM message INDEXED BY message_session
         WHERE queue = ?6 AND session_id = ?7 AND id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3);
