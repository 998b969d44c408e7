-- Keys of aggregates that are there, ascending: from each to the next by the primary key, however many
-- facts a key has.
--
-- $1 from, $2 to, $3 how many
WITH RECURSIVE step(key) AS (
  (SELECT f.key FROM handoff.fact f WHERE f.key BETWEEN $1 AND $2 ORDER BY f.key LIMIT 1)
  UNION ALL
  SELECT (SELECT f.key FROM handoff.fact f WHERE f.key > step.key AND f.key <= $2 ORDER BY f.key LIMIT 1)
  FROM step WHERE step.key IS NOT NULL
)
SELECT step.key FROM step
CROSS JOIN LATERAL (
  SELECT f.gone FROM handoff.fact f WHERE f.key = step.key ORDER BY f.version DESC LIMIT 1
) AS newest
WHERE NOT newest.gone
LIMIT $3
