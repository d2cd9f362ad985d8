-- Adds the column "data". While this waits for a user's transaction, it blocks all clients, so it
-- gives up soon; the first publication of a client tries again.
DO $add$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'web_locks.request'::regclass
    AND attname = 'data' AND NOT attisdropped)
  THEN
    PERFORM set_config('lock_timeout', '50', true);
    ALTER TABLE web_locks.request ADD COLUMN IF NOT EXISTS data bytea;
  END IF;
END $add$;
