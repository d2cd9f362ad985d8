-- Section 4.1 "request a lock": https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock
--
--   Input    number: a value of the sequence, which the caller must draw while the name is locked.
--            It becomes the ticket, and also the token unless this call grants other requests first
--   Output   the code of this operation, as in the output of "step"
CREATE OR REPLACE FUNCTION web_locks.request_one(
  me bigint, number bigint, waits bool, reference bigint, k bytea, its_name bytea, is_shared bool,
  its_limit int, its_weight int, most int, its_priority int, its_label bytea,
  it_passes bool DEFAULT false
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  queue record;
  present timestamptz := clock_timestamp();
  its_rank float8 := - its_priority::float8;
  its_token bigint := number;
  known int;
  waiting record;
BEGIN
  -- This INSERT grants a free name, the most frequent case, without reading its queue.
  INSERT INTO web_locks.request SELECT k, least(its_rank, 0), number, me, reference, number,
      is_shared, its_priority, CASE WHEN is_shared THEN its_limit END, its_weight, its_name,
      its_label, present, present
    WHERE NOT it_passes AND present >= (SELECT grants_from FROM web_locks.epoch)
      AND NOT EXISTS (SELECT FROM web_locks.request WHERE key = k);
  IF FOUND THEN RETURN number; END IF;
  queue := web_locks.process_the_lock_request_queue(
    k, me, is_shared, its_limit, its_weight, its_rank);
  known := queue.known;
  IF is_shared AND known <> its_limit THEN RETURN -10 - known::bigint; END IF;
  IF queue.fits AND it_passes THEN RETURN -9; END IF;
  IF NOT queue.fits THEN
    IF NOT waits THEN RETURN -1; END IF;
    IF most >= 0 AND most <= (SELECT count(*) FROM (
      SELECT FROM web_locks.request r WHERE key = k AND token IS NULL
        AND (SELECT expires > present FROM web_locks.session WHERE id = r.session)
      LIMIT most) waiting)
    THEN RETURN -3; END IF;
  END IF;
  IF is_shared AND known IS NULL THEN
    known := its_limit;
    IF NOT queue.is_first THEN
      UPDATE web_locks.request SET lim = its_limit WHERE key = k;
    END IF;
  END IF;
  IF queue.fits THEN
    -- The call above may have granted earlier requests, with tokens greater than "number".
    IF NOT queue.is_first THEN its_token := nextval('web_locks.token'); END IF;
    INSERT INTO web_locks.request VALUES (k, least(its_rank, 0), number, me, reference, its_token,
      is_shared, its_priority, known, its_weight, its_name, its_label, present, present);
    RETURN its_token;
  END IF;
  IF its_priority > 0 THEN
    waiting := web_locks.first_waiting(k);
    UPDATE web_locks.request SET rank = '-infinity'
      WHERE key = k AND rank > its_rank AND token IS NOT NULL
        AND (rank, ticket) < (waiting.rank, waiting.ticket);
  END IF;
  INSERT INTO web_locks.request VALUES (k, its_rank, number, me, reference, NULL,
    is_shared, its_priority, known, its_weight, its_name, its_label, present, NULL, it_passes);
  RETURN 0;
END $$;
