-- Reaps expired sessions, and deletes expired marks. After a quarantine it also processes the
-- caller's names. Like a step, it does not check the epoch.
--
--   Input    beyond: first '', then the output, until that is NULL
--   Output   as for "end_sessions"
CREATE OR REPLACE FUNCTION web_locks.sweep(me bigint, beyond bytea) RETURNS bytea
LANGUAGE plpgsql AS $$
DECLARE
  waiting bigint := (SELECT me FROM web_locks.epoch, web_locks.lasting
    WHERE clock_timestamp() BETWEEN grants_from AND grants_from + 2 * ttl);
  last bytea;
BEGIN
  last := web_locks.end_sessions(
    ARRAY(SELECT id FROM web_locks.session WHERE expires <= clock_timestamp()),
    beyond, waiting, false);
  DELETE FROM web_locks.lapsed WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM web_locks.lapsed WHERE until <= clock_timestamp() FOR UPDATE SKIP LOCKED));
  PERFORM web_locks.drop_marks(1000);
  RETURN last;
END $$;
