-- Takes a name from its holders, whose sessions are notified.
--
--   Output   the operation's entry of "step"
CREATE OR REPLACE FUNCTION web_locks.steal_one(
  me bigint, reference bigint, k bytea, its_name bytea, its_label bytea
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  r record;
  lim int;
  place bigint;
  number bigint;
  thief text := (SELECT client FROM web_locks.session WHERE id = me);
  waiting record;
  held tid[];
  free tid[];
BEGIN
  waiting := web_locks.first_waiting(k);
  held := ARRAY(SELECT ctid FROM web_locks.request WHERE key = k AND token IS NOT NULL
    AND (rank, ticket) < (waiting.rank, waiting.ticket));
  free := ARRAY(SELECT ctid FROM web_locks.request WHERE ctid = ANY (held)
    FOR UPDATE SKIP LOCKED);
  IF cardinality(free) < cardinality(held) THEN RETURN -7; END IF;
  SELECT q.lim INTO lim FROM web_locks.request q WHERE key = k LIMIT 1;
  FOR r IN DELETE FROM web_locks.request WHERE ctid = ANY (free) RETURNING session, ref LOOP
    PERFORM web_locks.take_away(r.session, r.ref, thief);
  END LOOP;
  -- The thief enters the queue ahead of all waiters, even ahead of other thieves.
  SELECT min(ticket) - 1 INTO place FROM web_locks.request WHERE key = k AND rank = '-infinity';
  IF place IS NULL THEN place := nextval('web_locks.token'); END IF;
  r := web_locks.process_the_lock_request_queue(k, me, false, is_ahead => true);
  IF r.fits THEN number := nextval('web_locks.token'); END IF;
  INSERT INTO web_locks.request VALUES (
    k, '-infinity', place, me, reference, number, false, 0, lim, 0, its_name, its_label,
    clock_timestamp(), CASE WHEN r.fits THEN clock_timestamp() END);
  RETURN coalesce(number, 0);
END $$;
