-- Makes steps true, or none of them. The versions are compared by this statement, under locks that an
-- earlier statement of the transaction took: its snapshot is younger than they are.
--
-- $1, $2 what was looked at: keys and the versions seen
-- $3 to $6 facts: key, version, changes, gone
-- $7 to $13 batches: topic, partition, base, count, last in microseconds, bytes, data
WITH stale AS MATERIALIZED (
  SELECT looked.key
  FROM unnest($1::bytea[], $2::bigint[]) AS looked(key, version)
  WHERE looked.version <> coalesce(
    (SELECT f.version FROM handoff.fact f WHERE f.key = looked.key ORDER BY f.version DESC LIMIT 1),
    0)
), facts AS (
  INSERT INTO handoff.fact (key, version, changes, gone)
  SELECT n.key, n.version, n.changes, n.gone
  FROM unnest($3::bytea[], $4::bigint[], $5::bytea[], $6::boolean[]) AS n(key, version, changes, gone)
  WHERE NOT EXISTS (SELECT FROM stale)
), batches AS (
  INSERT INTO handoff.batch (topic, partition, base, count, last, bytes, data)
  SELECT n.topic, n.partition, n.base, n.count, timestamptz 'epoch' + n.last * interval '1 microsecond',
    n.bytes, n.data
  FROM unnest($7::bigint[], $8::bigint[], $9::bigint[], $10::integer[], $11::bigint[], $12::integer[],
    $13::bytea[]) AS n(topic, partition, base, count, last, bytes, data)
  WHERE NOT EXISTS (SELECT FROM stale)
)
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
  coalesce((SELECT array_agg(key) FROM stale), '{}') AS stale
