-- Section 4.2 "release the lock" and 4.3 "abort the request", which do the same here:
-- https://www.w3.org/TR/2023/WD-web-locks-20230105/#release-the-lock
--
--   Input    keep: milliseconds to mark the name for; 0 for no mark
--   Output   the operation's entry of "step"
CREATE OR REPLACE FUNCTION web_locks.end_one(
  me bigint, reference bigint, k bytea, keep float8
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  gone record;
  is_gone bool := true;
  code bigint := -4;
BEGIN
  DELETE FROM web_locks.request WHERE ctid = (
    SELECT ctid FROM web_locks.request WHERE session = me AND ref = reference
    FOR UPDATE SKIP LOCKED)
    RETURNING token INTO gone;
  IF NOT FOUND THEN
    IF EXISTS (SELECT FROM web_locks.request WHERE session = me AND ref = reference)
    THEN RETURN -7; END IF;
    is_gone := false;
  END IF;
  IF keep > 0 THEN
    IF gone.token IS NOT NULL THEN
      PERFORM web_locks.set_mark(k, me, reference, keep);
    ELSIF NOT EXISTS (
      SELECT FROM web_locks.mark WHERE key = k AND session = me AND ref = reference)
    THEN
      code := -6;
    END IF;
  END IF;
  IF is_gone THEN PERFORM web_locks.process_the_lock_request_queue(k, me); END IF;
  RETURN code;
END $$;
