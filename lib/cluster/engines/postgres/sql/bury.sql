-- If a session has expired, deletes its rows in the queue k. If the session has no other rows, it
-- deletes the session, too, since a sweep may never come. It skips rows that a user guards, and
-- sessions that are renewing or stepping.
--
--   Output   whether it deleted any row of the queue
CREATE OR REPLACE FUNCTION web_locks.bury(k bytea, its_session bigint) RETURNS bool
LANGUAGE plpgsql AS $$
DECLARE
  until timestamptz := (SELECT expires FROM web_locks.session WHERE id = its_session);
  lease interval;
  were_any bool;
BEGIN
  IF until > clock_timestamp() THEN RETURN false; END IF;
  IF until > 'epoch' THEN
    PERFORM web_locks.grace();
    -- After this statement, the session cannot renew.
    WITH ended AS (
      SELECT id, expires FROM web_locks.session
      WHERE id = its_session AND expires <= clock_timestamp() FOR UPDATE SKIP LOCKED)
    UPDATE web_locks.session s SET expires = 'epoch' FROM ended WHERE s.id = ended.id
      RETURNING ended.expires, ttl INTO until, lease;
    IF NOT FOUND THEN RETURN false; END IF;
    IF until > 'epoch' THEN
      INSERT INTO web_locks.lapsed VALUES (lease, clock_timestamp() + lease);
    END IF;
  END IF;
  DELETE FROM web_locks.request WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM web_locks.request WHERE key = k AND session = its_session
    FOR UPDATE SKIP LOCKED));
  were_any := FOUND;
  DELETE FROM web_locks.session WHERE id = (
    SELECT id FROM web_locks.session WHERE id = its_session
      AND NOT EXISTS (SELECT FROM web_locks.request WHERE session = its_session)
    FOR UPDATE SKIP LOCKED);
  -- Thefts are deleted last: while a session has requests, others can steal from it.
  IF FOUND THEN DELETE FROM web_locks.theft WHERE session = its_session; END IF;
  RETURN were_any;
END $$;

-- Reaps expired holders of a name, except "me". Returns whether it deleted any row of the queue.
CREATE OR REPLACE FUNCTION web_locks.bury_holders(k bytea, me bigint) RETURNS bool
LANGUAGE plpgsql AS $$
DECLARE
  holder record;
  holders bigint[] := '{}';
  were_any bool := false;
BEGIN
  FOR holder IN
    SELECT session, token FROM web_locks.request WHERE key = k ORDER BY rank, ticket
  LOOP
    EXIT WHEN holder.token IS NULL;
    CONTINUE WHEN holder.session = ANY (holders) OR holder.session = me;
    holders := holders || holder.session;
    were_any := web_locks.bury(k, holder.session) OR were_any;
  END LOOP;
  RETURN were_any;
END $$;
