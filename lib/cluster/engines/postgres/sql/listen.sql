-- Makes the connection receive the session's notifications, beginning with its next commit.
-- PostgreSQL wakes each listener for every NOTIFY, so a session without requests does not listen.
CREATE OR REPLACE FUNCTION web_locks.listen(me bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE 'LISTEN wl_' || me;
END $$;
