-- Creates the sequence of tickets and tokens, and the first epoch. The sequence starts at the
-- current time, so that tokens still grow if the schema is created again. The advisory lock is free
-- only if no connection uses an earlier schema: then no lock can be lost, and the epoch begins
-- without a quarantine. If the tables were only emptied, no epoch is created here.
DO $create$ DECLARE
  first_life text := gen_random_uuid();
  is_new bool := false;
BEGIN
  IF to_regclass('web_locks.token') IS NULL THEN
    CREATE SEQUENCE web_locks.token;
    PERFORM setval('web_locks.token', (extract(epoch FROM clock_timestamp()) * 1e6)::bigint);
    is_new := pg_try_advisory_xact_lock(22347, hashtext('web_locks'));
  END IF;
  INSERT INTO web_locks.lasting (version, durability, ttl, lives)
    VALUES (9, 'logged'/*durability*/, interval '1 second', ARRAY[first_life])
    ON CONFLICT DO NOTHING;
  IF is_new THEN
    INSERT INTO web_locks.epoch (identity, life, grants_from, pause)
      VALUES (web_locks.identity(), first_life, 'epoch', interval '0') ON CONFLICT DO NOTHING;
  END IF;
END $create$;
