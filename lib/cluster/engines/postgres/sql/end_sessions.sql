-- Ends sessions in the next 100 names, and grants what becomes free there. Locks that a user guards
-- are left for a later sweep.
--
--   Input
--     ids      of the sessions to end
--     beyond   the key of the name after which to begin
--     waiting  a session whose awaited names are processed, too; NULL for none
--     is_own   whether the caller ends its own session; if not, only expired sessions end
--   Output   the key of the name after which to continue; NULL at the end
CREATE OR REPLACE FUNCTION web_locks.end_sessions(
  ids bigint[], beyond bytea, waiting bigint, is_own bool
) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
  keys bytea[] := ARRAY(SELECT DISTINCT key FROM web_locks.request
    WHERE session = ANY (ids || waiting) AND (token IS NULL OR session = ANY (ids))
      AND key > beyond
    ORDER BY key LIMIT 100);
  dead bigint[];
  k bytea;
BEGIN
  PERFORM web_locks.lock_names(keys);
  IF is_own THEN
    PERFORM FROM web_locks.session WHERE id = ANY (ids) FOR UPDATE;
    UPDATE web_locks.session SET expires = 'epoch' WHERE id = ANY (ids);
    -- The statement above may have waited for a step that made more requests. Their names are not
    -- locked, so the caller must begin this page again.
    IF EXISTS (SELECT FROM web_locks.request WHERE session = ANY (ids) AND key > beyond
      AND key <> ALL (keys) AND (keys[100] IS NULL OR key < keys[100]))
    THEN RETURN beyond; END IF;
    dead := ids;
  ELSE
    PERFORM web_locks.grace();
    WITH ended AS (
      SELECT id, expires FROM web_locks.session
      WHERE id = ANY (ids) AND expires <= clock_timestamp() FOR UPDATE SKIP LOCKED),
    marked AS (
      UPDATE web_locks.session s SET expires = 'epoch' FROM ended WHERE s.id = ended.id
      RETURNING s.id, ttl, ended.expires),
    noted AS (
      INSERT INTO web_locks.lapsed SELECT ttl, clock_timestamp() + ttl FROM marked
        WHERE expires > 'epoch')
    SELECT array_agg(id) INTO dead FROM marked;
  END IF;
  DELETE FROM web_locks.request WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM web_locks.request WHERE session = ANY (dead) AND key = ANY (keys)
    FOR UPDATE SKIP LOCKED));
  FOREACH k IN ARRAY keys LOOP
    PERFORM web_locks.process_the_lock_request_queue(k, NULL);
  END LOOP;
  DELETE FROM web_locks.session s WHERE id = ANY (dead)
    AND NOT EXISTS (SELECT FROM web_locks.request r WHERE r.session = s.id);
  -- Thefts are deleted last, as in "bury".
  DELETE FROM web_locks.theft WHERE session = ANY (dead);
  RETURN keys[100];
END $$;
