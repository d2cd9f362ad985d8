-- Executes a step that consists of one request, which is no theft, like "step" but faster. It first
-- records the answer that the request gets if the name is free.
--
--   Input    as for "step", for its only operation; waits: false for an ifAvailable
--   Output   the code that "step" would return as its only entry
CREATE OR REPLACE FUNCTION web_locks.request_alone(
  me bigint, its_conn int, its_step bigint, waits bool, reference bigint, k bytea, its_name bytea,
  is_shared bool DEFAULT false, its_limit int DEFAULT 0, its_weight int DEFAULT 0,
  most int DEFAULT -1, its_priority int DEFAULT 0, its_label bytea DEFAULT '',
  listens bool DEFAULT false
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  done text;
  code bigint;
  number bigint;
BEGIN
  done := web_locks.lock_name(k);
  -- The UPDATE locks the row, so that no other transaction ends the session during this step.
  number := nextval('web_locks.token');
  UPDATE web_locks.session SET step = its_step, answers = ARRAY[number]
    WHERE id = me AND conn = its_conn AND step <> its_step AND expires > clock_timestamp();
  IF NOT FOUND THEN
    RETURN (web_locks.step(me, its_conn, its_step, ARRAY[CASE WHEN waits THEN 0 ELSE 1 END],
      ARRAY[reference], ARRAY[k], ARRAY[its_name], ARRAY[is_shared], ARRAY[its_limit],
      ARRAY[its_weight], ARRAY[most], ARRAY[its_priority], ARRAY[its_label], '{0}', '{0}',
      listens))[1];
  END IF;
  IF listens THEN PERFORM web_locks.listen(me); END IF;
  code := web_locks.request_one(me, number, waits, reference, k, its_name, is_shared,
    its_limit, its_weight, most, its_priority, its_label);
  IF code <> number THEN
    UPDATE web_locks.session SET answers = ARRAY[code] WHERE id = me;
  END IF;
  RETURN code;
END $$;
