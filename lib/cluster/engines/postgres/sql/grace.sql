-- If the server's clock jumped, or nobody could renew for half a lease, sessions get another whole
-- lease, but late sessions only once. This must run before any lease counts as expired, and before
-- any lease is renewed.
CREATE OR REPLACE FUNCTION web_locks.grace() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  present timestamptz := clock_timestamp();
  latest timestamptz;
  furthest timestamptz;
BEGIN
  SELECT max(renewed), max(expires - ttl) INTO latest, furthest FROM web_locks.session
    WHERE expires > 'epoch';
  IF furthest <= present AND latest >= present - interval '100 milliseconds' THEN RETURN; END IF;
  UPDATE web_locks.session
    SET expires = present + ttl, renewed = least(renewed, present), graced = true
    WHERE id IN (
      SELECT id FROM web_locks.session
      WHERE expires > 'epoch'
        AND (expires > present + ttl OR NOT graced AND latest < present - ttl / 2)
      FOR UPDATE SKIP LOCKED);
END $$;
