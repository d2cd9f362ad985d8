-- Marks a name. This may wait for a transaction that is deleting the name's old mark. There is no
-- deadlock, because that transaction locks nothing more: see "drop_marks".
CREATE OR REPLACE FUNCTION web_locks.set_mark(
  k bytea, me bigint, reference bigint, keep float8
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  the_end timestamptz := clock_timestamp() + keep * interval '1 millisecond';
BEGIN
  INSERT INTO web_locks.mark VALUES (k, the_end, me, reference)
    ON CONFLICT (key) DO UPDATE SET until = the_end, session = me, ref = reference;
END $$;

-- Deletes up to "most" expired marks. It must come last in a transaction, because "set_mark" may
-- wait for it.
CREATE OR REPLACE FUNCTION web_locks.drop_marks(most int) RETURNS void LANGUAGE sql AS $$
  DELETE FROM web_locks.mark WHERE key = ANY (ARRAY(
    SELECT key FROM web_locks.mark WHERE until <= clock_timestamp()
    ORDER BY until LIMIT most FOR UPDATE SKIP LOCKED))
$$;
