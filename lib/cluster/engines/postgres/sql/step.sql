-- Executes the operations of a session in their order, exactly once. If the last step arrives
-- again, it gets the same answers (R1).
--
--   Input    the arrays have an entry for each operation
--     kinds  0 request, 1 ifAvailable, 2 steal, 3 end, 4 request that passes, 5 ifAvailable that
--            passes, 6 publication
--     keys   of the names; NULL for an end of which only "ref" is known
--     labels of a publication: the data
--     lims, weights   of a shared request, 0 for none
--     most   maxPending; -1 for any number
--     priorities   of a request, higher first; of others 0
--     groups 0, or the number of a group
--     keeps  of an end: milliseconds to mark the name for; 0 for no mark
--     listens   the connection must LISTEN from this step on
--   Output   an entry for each operation:
--     > 0      the token of a grant
--     0        the request waits
--     -1       not available
--     -3       too many requests wait
--     -4       ended, or published
--     -6       ended, but not marked, or not published, because the lock was not held
--     -7       nothing was done for this operation, because a user guards the lock
--     -9       the request has passed
--     -10 - n  the name's limit is n
--            If the whole step was refused, the only entry is -2 (the session is dead) or -5 (the
--            connection was replaced)
CREATE OR REPLACE FUNCTION web_locks.step(
  me bigint, its_conn int, its_step bigint, kinds int[], refs bigint[], keys bytea[],
  names bytea[], shareds bool[], lims int[], weights int[], most int[], priorities int[],
  labels bytea[], groups int[], keeps float8[], listens bool DEFAULT false
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  codes bigint[] := '{}';
  code bigint;
  mine record;
  count int := cardinality(kinds);
  from_i int := 1;
  marks int := 0;
  -- Steps that contain only ends without marks are not recorded, because such ends get the same
  -- answers if they are executed again.
  is_kept bool := false;
BEGIN
  IF listens THEN PERFORM web_locks.listen(me); END IF;
  -- A step that was already executed must get its answers, even if its names cannot be locked now.
  SELECT answers INTO mine FROM web_locks.session
    WHERE id = me AND conn = its_conn AND step = its_step AND expires > clock_timestamp();
  IF FOUND THEN RETURN mine.answers; END IF;
  FOR i IN 1 .. count LOOP
    IF keys[i] IS NULL THEN
      keys[i] := (SELECT key FROM web_locks.request WHERE session = me AND ref = refs[i]);
    END IF;
  END LOOP;
  PERFORM web_locks.lock_names(keys);

  -- The row lock prevents other transactions from ending the session during this step.
  SELECT conn, expires, step, answers INTO mine
    FROM web_locks.session WHERE id = me FOR NO KEY UPDATE;
  IF FOUND AND mine.expires <= clock_timestamp() THEN
    PERFORM web_locks.grace();
    SELECT conn, expires, step, answers INTO mine FROM web_locks.session WHERE id = me;
  END IF;
  IF NOT FOUND OR mine.expires <= clock_timestamp() THEN RETURN '{-2}'; END IF;
  IF mine.conn <> its_conn THEN RETURN '{-5}'; END IF;
  IF mine.step = its_step THEN RETURN mine.answers; END IF;

  FOR i IN 1 .. count LOOP
    IF kinds[i] = 3 THEN
      code := web_locks.end_one(me, refs[i], keys[i], keeps[i]);
      IF keeps[i] > 0 THEN marks := marks + 1; END IF;
    ELSIF kinds[i] = 6 THEN
      code := web_locks.publish_one(me, refs[i], labels[i]);
    ELSIF kinds[i] = 2 THEN
      code := web_locks.steal_one(me, refs[i], keys[i], names[i], labels[i]);
    ELSIF groups[i] > 0 AND i > 1 AND groups[i] = groups[i - 1] AND codes[i - 1] < 0
      AND kinds[i] = 1 THEN
      code := -1;
    ELSE
      IF i = 1 OR groups[i] <> groups[i - 1] THEN from_i := i; END IF;
      code := web_locks.request_one(me, nextval('web_locks.token'), kinds[i] IN (0, 4), refs[i],
        keys[i], names[i], shareds[i], lims[i], weights[i], most[i], priorities[i], labels[i],
        kinds[i] > 3);
      IF kinds[i] = 1 AND code < 0 AND groups[i] > 0 THEN
        -- A group gets all its locks or none, so the locks that were just granted are released.
        FOR j IN from_i .. i - 1 LOOP
          PERFORM web_locks.end_one(me, refs[j], keys[j], 0);
          codes[j] := -1;
        END LOOP;
      END IF;
    END IF;
    codes[i] := code;
    is_kept := is_kept OR kinds[i] <> 3 OR keeps[i] > 0;
  END LOOP;
  IF is_kept THEN
    UPDATE web_locks.session SET step = its_step, answers = codes WHERE id = me;
  END IF;
  IF marks > 0 THEN PERFORM web_locks.drop_marks(2 * marks); END IF;
  RETURN codes;
END $$;
