SET search_path = pg_catalog;
-- Versions are compared by a statement that begins after the locks are held.
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
-- A broker that stops in the middle keeps others waiting no longer than this.
SET idle_in_transaction_session_timeout = '30s';
SET lock_timeout = '30s';
-- Everything is found by primary key. A plan made while the tables are still empty must not be one
-- that reads all of them later.
SET enable_seqscan = off;
SET plan_cache_mode = force_generic_plan;
-- What is acknowledged is on disk. Whoever asks for more (a replica, too) keeps it.
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') IN ('off', 'local');
