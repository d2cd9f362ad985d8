-- Begins a new connection of a session. It waits for the current step of the older connection. It
-- does not wait for "end_alone", because an end is correct even if it is executed later.
--
--   Input    milliseconds: the length of the session's leases
--   Output   the number of the connection; NULL if the session is dead
CREATE OR REPLACE FUNCTION web_locks.hello(
  me bigint, milliseconds float8, seen_life text, seen_token bigint
) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  number int;
BEGIN
  PERFORM pg_advisory_lock_shared(22347, hashtext('web_locks'));
  PERFORM web_locks.awake(seen_life, seen_token, milliseconds * interval '1 millisecond');
  PERFORM FROM web_locks.session WHERE id = me FOR UPDATE;
  PERFORM web_locks.grace();
  UPDATE web_locks.session SET conn = conn + 1 WHERE id = me AND expires > clock_timestamp()
    RETURNING conn INTO number;
  RETURN number;
END $$;
