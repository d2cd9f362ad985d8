-- The identity of the server's history. A promotion begins a new timeline, and a server that loads
-- a dump of another server has another system identifier.
CREATE OR REPLACE FUNCTION web_locks.identity() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) || ' ' || system_identifier
  FROM pg_control_system()
$$;

-- The longest lease that may still last, as far as the lock state shows; NULL if there is none.
CREATE OR REPLACE FUNCTION web_locks.longest_lease() RETURNS interval LANGUAGE sql AS $$
  SELECT greatest((SELECT max(ttl) FROM web_locks.session WHERE expires > 'epoch'),
    (SELECT max(ttl) FROM web_locks.lapsed WHERE until > clock_timestamp()))
$$;

-- Lowers "ttl" to the longest lease that may still last, but not below "least_lease". It does
-- nothing while a session or an epoch begins, because their leases are not visible yet. It does
-- nothing in a quarantine either, because leases may still last that the lock state does not show.
-- It never waits.
CREATE OR REPLACE FUNCTION web_locks.lower_ttl(least_lease interval) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM web_locks.lasting
      WHERE ttl > greatest(web_locks.longest_lease(), least_lease))
    AND pg_try_advisory_xact_lock(22348, 2) AND pg_try_advisory_xact_lock(22348, 1)
  THEN
    UPDATE web_locks.lasting SET ttl = greatest(web_locks.longest_lease(), least_lease)
      WHERE ttl > greatest(web_locks.longest_lease(), least_lease)
        AND EXISTS (SELECT FROM web_locks.epoch
          WHERE identity = web_locks.identity() AND grants_from <= clock_timestamp());
  END IF;
END $$;

-- Begins a new epoch with a quarantine if the lock state may lack grants: the server is another
-- one, or a client has seen an epoch or token that this server does not know (R5). Before the
-- quarantine ends, former holders lose their locks by their own clocks. Known leases are renewed,
-- so that sessions that can renew survive. The quarantine is as long as the longest lease that may
-- still last, but at least the caller's "its_lease", since unknown sessions may have leases of that
-- length.
--
--   Output   grants_from
CREATE OR REPLACE FUNCTION web_locks.reborn(
  seen_life text, seen_token bigint, its_lease interval DEFAULT NULL
) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
  me text := web_locks.identity();
  before record;
  pause interval;
  known text[];
  latest text;
  last bigint;
  present timestamptz;
  until timestamptz;
BEGIN
  PERFORM pg_advisory_xact_lock(22348, 1);
  SELECT ttl, lives INTO pause, known FROM web_locks.lasting;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'web_locks.lasting is empty' USING ERRCODE = 'WL002';
  END IF;
  SELECT last_value INTO last FROM web_locks.token;
  SELECT * INTO before FROM web_locks.epoch;
  -- A clock that was set back must not lengthen the quarantine.
  IF before.identity = me AND before.grants_from <= clock_timestamp() + before.pause
    AND (seen_life IN ('', before.life) OR seen_life = ANY (known)) AND seen_token <= last
  THEN RETURN before.grants_from; END IF;
  IF before IS NOT NULL THEN pause := coalesce(web_locks.longest_lease(), its_lease, pause); END IF;
  pause := greatest(pause, its_lease);
  present := clock_timestamp();
  -- The new quarantine must not end before the last quarantine.
  until := greatest(present + pause, least(before.grants_from, present + before.pause));
  latest := gen_random_uuid();
  known := array_remove(known, seen_life) || array_remove(ARRAY[seen_life], '') || latest;
  UPDATE web_locks.lasting SET lives = known[greatest(cardinality(known) - 99, 1):];
  PERFORM setval('web_locks.token', greatest(
    greatest(last, seen_token) + 1000000, (extract(epoch FROM present) * 1e6)::bigint));
  -- A session may have renewed since "present", and its lease must not become shorter.
  UPDATE web_locks.session
    SET expires = greatest(present + ttl, least(expires, clock_timestamp() + ttl)),
      renewed = present, graced = false
    WHERE id IN (SELECT id FROM web_locks.session WHERE expires > 'epoch'
      FOR UPDATE SKIP LOCKED);
  INSERT INTO web_locks.epoch (identity, life, grants_from, pause)
    VALUES (me, latest, until, until - present)
    ON CONFLICT (one) DO UPDATE
      SET identity = me, life = latest, grants_from = until, pause = until - present;
  RETURN until;
END $$;

-- Runs when a connection begins and at each renewal. Begins a new epoch if the server has changed,
-- or if the client's "seen_life" or "seen_token" requires it. Steps need no check, because a
-- connection never changes its server.
--
--   Output   grants_from
CREATE OR REPLACE FUNCTION web_locks.awake(
  seen_life text, seen_token bigint, its_lease interval DEFAULT NULL
) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
  until timestamptz;
BEGIN
  SELECT grants_from INTO until FROM web_locks.epoch WHERE identity = web_locks.identity()
    AND (seen_life IN ('', life)
      OR EXISTS (SELECT FROM web_locks.lasting WHERE seen_life = ANY (lives)))
    AND seen_token <= (SELECT last_value FROM web_locks.token);
  IF FOUND AND until <= clock_timestamp() THEN RETURN until; END IF;
  RETURN web_locks.reborn(seen_life, seen_token, its_lease);
END $$;
