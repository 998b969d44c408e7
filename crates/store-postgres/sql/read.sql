-- Batches that follow one another without a gap, from the one that holds an offset on: the first
-- whatever its size, then as long as the bytes fit.
--
-- $1 topic, $2 partition, $3 offset, $4 how many bytes
WITH RECURSIVE run(base, next, total) AS (
  SELECT first.base, first.base + first.count, first.bytes::bigint
  FROM (
    SELECT b.base, b.count, b.bytes FROM handoff.batch b
    WHERE b.topic = $1 AND b.partition = $2 AND b.base <= $3
    ORDER BY b.base DESC LIMIT 1
  ) AS first
  WHERE first.base + first.count > $3
  UNION ALL
  SELECT b.base, b.base + b.count, run.total + b.bytes
  FROM run JOIN handoff.batch b ON b.topic = $1 AND b.partition = $2 AND b.base = run.next
  WHERE run.total + b.bytes <= $4
)
SELECT b.base, b.count, b.data
FROM run JOIN handoff.batch b ON b.topic = $1 AND b.partition = $2 AND b.base = run.base
ORDER BY b.base
