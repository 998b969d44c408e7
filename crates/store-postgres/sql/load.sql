-- Aggregates: the newest snapshot of each, and the facts behind it. One statement, so that a snapshot
-- that is made meanwhile does not open a gap.
--
-- $1 keys, $2 the version of each that is known already
SELECT asked.number, found.version, found.whole, found.data,
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
FROM unnest($1::bytea[], $2::bigint[]) WITH ORDINALITY AS asked(key, known, number)
LEFT JOIN LATERAL (
  SELECT s.version, s.aggregate FROM handoff.snapshot s
  WHERE s.key = asked.key AND s.version > asked.known
  ORDER BY s.version DESC LIMIT 1
) AS snapshot ON true
CROSS JOIN LATERAL (
  SELECT snapshot.version, true AS whole, snapshot.aggregate AS data
  WHERE snapshot.version IS NOT NULL
  UNION ALL
  SELECT f.version, false, f.changes FROM handoff.fact f
  WHERE f.key = asked.key AND f.version > coalesce(snapshot.version, asked.known)
) AS found
ORDER BY asked.number, found.version
