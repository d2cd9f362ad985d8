-- Starts a session. The connection keeps an advisory lock until it ends. If a client creates the
-- tables again, it finds out by this lock that somebody still uses the earlier ones: see "is_new"
-- in first_epoch.sql.
--
--   Input    milliseconds: the length of its leases
--   Output   the epoch
CREATE OR REPLACE FUNCTION web_locks.open(
  me bigint, its_bucket bytea, its_client text, its_info text, milliseconds float8,
  seen_life text, seen_token bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  lease interval := milliseconds * interval '1 millisecond';
BEGIN
  PERFORM pg_advisory_lock_shared(22347, hashtext('web_locks'));
  PERFORM web_locks.lower_ttl(lease);
  -- From here on, no transaction lowers "ttl" until this session is visible.
  PERFORM pg_advisory_xact_lock_shared(22348, 2);
  IF EXISTS (SELECT FROM web_locks.lasting WHERE ttl < lease) THEN
    PERFORM pg_advisory_xact_lock(22348, 1);
    UPDATE web_locks.lasting SET ttl = lease WHERE ttl < lease;
  END IF;
  PERFORM web_locks.awake(seen_life, seen_token, lease);
  PERFORM web_locks.grace();
  INSERT INTO web_locks.session VALUES (me, 1, its_bucket, its_client, its_info, lease,
    clock_timestamp(), clock_timestamp() + lease, false);
  RETURN (SELECT life FROM web_locks.epoch);
END $$;
