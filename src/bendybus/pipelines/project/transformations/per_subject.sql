-- How many messages there are of each subject, and how large they are.
CREATE MATERIALIZED VIEW per_subject AS
SELECT
  subject,
  count(*) AS messages,
  round(avg(length(body))) AS mean_bytes,
  max(enqueued_time) AS newest
FROM messages
GROUP BY subject;
