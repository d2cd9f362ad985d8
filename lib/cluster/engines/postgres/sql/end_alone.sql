-- Executes a step that consists of one end without a mark, like "step" but faster. It does not lock
-- the row of the session, because an end is correct even if the session ends at this moment.
--
-- The end of a queue's last request does not wait for the disk. If the server crashes, the lock is
-- held again until "renew" reports the lock to its session, which ends it, or until the lease ends.
-- Any later grant waits for the disk, and so also for this end.
--
--   Output   the code that "step" would return as its only entry
CREATE OR REPLACE FUNCTION web_locks.end_alone(
  me bigint, its_conn int, its_step bigint, reference bigint, k bytea
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  done text;
  was_last bool;
BEGIN
  done := web_locks.lock_name(k);
  DELETE FROM web_locks.request WHERE ctid = (
    SELECT ctid FROM web_locks.request WHERE session = me AND ref = reference
      AND EXISTS (SELECT FROM web_locks.session
        WHERE id = me AND conn = its_conn AND expires > clock_timestamp())
    FOR UPDATE SKIP LOCKED)
    RETURNING NOT EXISTS (SELECT FROM web_locks.request
      WHERE key = k AND NOT (session = me AND ref = reference)) INTO was_last;
  IF NOT FOUND THEN
    RETURN (web_locks.step(me, its_conn, its_step, '{3}', ARRAY[reference], ARRAY[k], '{""}',
      '{f}', '{0}', '{0}', '{0}', '{0}', '{""}', '{0}', '{0}'))[1];
  END IF;
  IF NOT was_last THEN
    was_last := (web_locks.process_the_lock_request_queue(k, me)).is_first;
  END IF;
  IF was_last THEN done := set_config('synchronous_commit', 'off', true); END IF;
  RETURN -4;
END $$;
