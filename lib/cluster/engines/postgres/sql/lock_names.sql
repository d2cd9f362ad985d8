-- Takes the advisory lock of a name. The call is assigned and not PERFORMed, since an expression
-- costs less than a query. Callers of this function must do the same.
CREATE OR REPLACE FUNCTION web_locks.lock_name(k bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  done text;
BEGIN
  -- Each statement must see everything that was committed before the name was locked.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'web_locks needs READ COMMITTED' USING ERRCODE = 'WL001';
  END IF;
  done := pg_advisory_xact_lock(22349, (get_byte(k, 0) << 24) | (get_byte(k, 1) << 16)
    | (get_byte(k, 2) << 8) | get_byte(k, 3));
END $$;

-- Takes the advisory locks of several names.
CREATE OR REPLACE FUNCTION web_locks.lock_names(keys bytea[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  slot int;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'web_locks needs READ COMMITTED' USING ERRCODE = 'WL001';
  END IF;
  FOR slot IN
    SELECT DISTINCT (get_byte(k, 0) << 24) | (get_byte(k, 1) << 16) | (get_byte(k, 2) << 8)
      | get_byte(k, 3) AS n
    FROM unnest(keys) k WHERE k IS NOT NULL ORDER BY n
  LOOP
    PERFORM pg_advisory_xact_lock(22349, slot);
  END LOOP;
END $$;
