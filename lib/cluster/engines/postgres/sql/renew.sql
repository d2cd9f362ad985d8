-- Extends the lease.
--
--   Input    told: refs of thefts that the caller knows
--   Output   alive; if it is false, all other values are NULL:
--     refs, tokens   all locks and requests of the session; 0 for a waiter
--     next_expiry_in   milliseconds to the end of another session's lease; NULL for none
--     grants_in  milliseconds to the end of the quarantine; 0 for none
--     its_life   the epoch
--     its_step   the last recorded step
--     stolen     refs and thieves as JSON; NULL for none
CREATE OR REPLACE FUNCTION web_locks.renew(
  me bigint, its_conn int, seen_life text, seen_token bigint, told bigint[], OUT alive bool,
  OUT refs bigint[], OUT tokens bigint[], OUT next_expiry_in float8, OUT grants_in float8,
  OUT its_life text, OUT its_step bigint, OUT stolen text
) LANGUAGE plpgsql AS $$
DECLARE
  grants_from timestamptz := web_locks.awake(seen_life, seen_token);
BEGIN
  PERFORM FROM web_locks.session WHERE id = me FOR NO KEY UPDATE;
  PERFORM web_locks.grace();
  UPDATE web_locks.session
    SET expires = clock_timestamp() + ttl, renewed = clock_timestamp(), graced = false
    WHERE id = me AND conn = its_conn AND expires > clock_timestamp()
    RETURNING step INTO its_step;
  alive := FOUND;
  IF NOT alive THEN RETURN; END IF;
  SELECT array_agg(ref), array_agg(coalesce(token, 0)) INTO refs, tokens
    FROM web_locks.request WHERE session = me;
  IF cardinality(told) > 0 THEN
    DELETE FROM web_locks.theft WHERE session = me AND ref = ANY (told);
  END IF;
  SELECT json_object_agg(ref, thief) INTO stolen FROM web_locks.theft WHERE session = me;
  -- An expired session remains while a user guards its lock. Without this minimum, other sessions
  -- would sweep in a busy loop meanwhile.
  SELECT extract(epoch FROM min(expires) - clock_timestamp()) * 1000
    INTO next_expiry_in FROM web_locks.session WHERE id <> me;
  IF next_expiry_in < 50 THEN next_expiry_in := 50; END IF;
  grants_in := greatest(extract(epoch FROM grants_from - clock_timestamp()) * 1000, 0);
  SELECT life INTO its_life FROM web_locks.epoch;
  PERFORM web_locks.lower_ttl(NULL);
END $$;
