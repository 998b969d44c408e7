-- The version of each key.
--
-- $1 keys
SELECT asked.number,
  coalesce(
    (SELECT f.version FROM handoff.fact f WHERE f.key = asked.key ORDER BY f.version DESC LIMIT 1),
    0) AS version,
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
FROM unnest($1::bytea[]) WITH ORDINALITY AS asked(key, number)
