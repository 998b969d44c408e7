-- What is known of topics, partitions, producers, groups: facts, one row for every version of an
-- aggregate. Rows are inserted and never updated, so a transaction that is held open elsewhere slows
-- nothing down.
CREATE TABLE handoff.fact (
  key bytea NOT NULL,        -- of the aggregate: docs/formats.md, streams
  version bigint NOT NULL,   -- 1, 2, 3, … of this key, without a gap
  changes bytea NOT NULL,    -- what became true with this version, in order
  gone boolean NOT NULL,     -- whether the last of them takes the aggregate away
  made timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (key, version)
);

-- An aggregate as it was at a version, so that whoever loads it reads few facts.
CREATE TABLE handoff.snapshot (
  key bytea NOT NULL,
  version bigint NOT NULL,
  aggregate bytea,           -- none: it was not there
  PRIMARY KEY (key, version)
);

-- Messages: Kafka record batches as they are read, one row a batch.
CREATE TABLE handoff.batch (
  topic bigint NOT NULL,     -- the topic's number
  partition bigint NOT NULL,
  base bigint NOT NULL,      -- the offset of the first message
  count integer NOT NULL,    -- how many messages, at offsets base, base + 1, …
  last timestamptz NOT NULL, -- the timestamp of the last of them
  bytes integer NOT NULL,    -- length of data
  data bytea NOT NULL,
  PRIMARY KEY (topic, partition, base)
);
-- Batches are compressed already, if at all.
ALTER TABLE handoff.batch ALTER COLUMN data SET STORAGE EXTERNAL;

COMMENT ON TABLE handoff.fact IS 'What became true, by aggregate and version; only ever inserted';
COMMENT ON TABLE handoff.snapshot IS 'Aggregates as they were at a version';
COMMENT ON TABLE handoff.batch IS 'Messages, one row a Kafka record batch; never updated';
