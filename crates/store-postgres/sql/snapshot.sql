-- Keeps an aggregate as it was at a version. Somebody else may have been faster; it is the same.
--
-- $1 key, $2 version, $3 the aggregate, none if it was not there
INSERT INTO handoff.snapshot (key, version, aggregate) VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING
