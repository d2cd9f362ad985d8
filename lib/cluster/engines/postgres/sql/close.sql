-- Ends the caller's session. On a connection without "open" or "hello", "awake" must run first, in
-- a transaction of its own.
--
--   Input    beyond: see "sweep"
--   Output   see "end_sessions"
CREATE OR REPLACE FUNCTION web_locks.close(me bigint, beyond bytea) RETURNS bytea
LANGUAGE plpgsql AS $$
BEGIN
  RETURN web_locks.end_sessions(ARRAY[me], beyond, NULL, true);
END $$;
