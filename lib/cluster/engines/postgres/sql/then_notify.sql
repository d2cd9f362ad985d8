-- Executes a step, and sends the news of its grants after its commit if others are committing such
-- news. A transaction that notifies takes a lock of the whole server, and keeps it until its commit
-- is on disk and at the synchronous standby. So the hand-overs of all names would be committed one
-- after the other. The transaction that only notifies waits for neither.
--
-- News may get lost if the server ends this process between the two transactions. Then the waiter
-- learns of its grant by its next renewal; after a crash of the server, when it reconnects.
--
-- While a step runs, "web_locks.news" has 'later', then the channels and payloads to send; or it is
-- empty, so that functions that are called without these procedures notify at once.
CREATE OR REPLACE PROCEDURE web_locks.step_then_notify(
  me bigint, its_conn int, its_step bigint, kinds int[], refs bigint[], keys bytea[],
  names bytea[], shareds bool[], lims int[], weights int[], most int[], priorities int[],
  labels bytea[], groups int[], keeps float8[], listens bool, INOUT codes bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
  done text := set_config('web_locks.news', 'later', true);
BEGIN
  codes := web_locks.step(me, its_conn, its_step, kinds, refs, keys, names, shareds, lims, weights,
    most, priorities, labels, groups, keeps, listens);
  done := current_setting('web_locks.news');
  IF done <> 'later' THEN CALL web_locks.commit_and_notify(done); END IF;
END $$;

CREATE OR REPLACE PROCEDURE web_locks.end_alone_then_notify(
  me bigint, its_conn int, its_step bigint, reference bigint, k bytea, INOUT code bigint
) LANGUAGE plpgsql AS $$
DECLARE
  done text := set_config('web_locks.news', 'later', true);
BEGIN
  code := web_locks.end_alone(me, its_conn, its_step, reference, k);
  done := current_setting('web_locks.news');
  IF done <> 'later' THEN CALL web_locks.commit_and_notify(done); END IF;
END $$;

CREATE OR REPLACE PROCEDURE web_locks.commit_and_notify(news text) LANGUAGE plpgsql AS $$
DECLARE
  done text;
  one text;
BEGIN
  COMMIT;
  done := set_config('synchronous_commit', 'off', true);
  FOREACH one IN ARRAY (string_to_array(news, ','))[2:] LOOP
    done := pg_notify('wl_' || split_part(one, ' ', 1), substr(one, strpos(one, ' ') + 1));
  END LOOP;
END $$;
