-- Section 4.4 "process the lock request queue": grants waiters in their order until one does not
-- fit, and notifies them. The INSERT in "request_one" grants free names.
-- https://www.w3.org/TR/2023/WD-web-locks-20230105/#process-the-lock-request-queue
--
--   Input
--     me        the session whose step this is, which is alive; or NULL
--     is_shared, its_limit, its_weight, its_rank   a new request that is not in the queue yet; NULL
--               if there is none
--     is_ahead  whether the new request enters ahead of all waiters, whatever its rank
--   Output
--     fits      whether the new request is granted; the caller then writes it, unless it passes
--     is_first  whether the queue is empty
--     known     the name's limit; 0 for none, NULL if no shared request has set one yet
CREATE OR REPLACE FUNCTION web_locks.process_the_lock_request_queue(
  k bytea, me bigint, is_shared bool DEFAULT NULL, its_limit int DEFAULT 0,
  its_weight int DEFAULT 0, its_rank float8 DEFAULT NULL, is_ahead bool DEFAULT false,
  OUT fits bool, OUT is_first bool, OUT known int
) LANGUAGE plpgsql AS $$
DECLARE
  -- The first row of the queue, a holder if there is one; and the last row.
  head record;
  tail record;
  -- The request whose turn it is: the first waiter, or the new request if "is_new".
  candidate record;
  is_new bool;
  number bigint;
  grants_from timestamptz;
  done text;
  news text;
  -- Reads of the holders must end at the first waiter, because the queue may be long.
  next_rank float8;
  next_ticket bigint;
BEGIN
  fits := false;
  LOOP
    next_rank := 'infinity';
    -- A single statement reads everything that a hand-over needs, since each statement delays it.
    SELECT session, ref, rank, ticket, token, shared, lim, weight, passes,
        r.session = me OR (SELECT expires > clock_timestamp() FROM web_locks.session
          WHERE id = r.session) AS lives,
        (SELECT e.grants_from FROM web_locks.epoch e) AS grants_from
      INTO head FROM web_locks.request r WHERE key = k ORDER BY rank, ticket LIMIT 1;
    is_first := NOT FOUND;
    known := head.lim;
    grants_from := head.grants_from;
    is_new := is_ahead OR is_first;
    -- If the last row is a holder, nobody waits.
    IF NOT is_new AND head.token IS NOT NULL THEN
      SELECT token INTO tail FROM web_locks.request WHERE key = k
        ORDER BY rank DESC, ticket DESC LIMIT 1;
      is_new := tail.token IS NOT NULL;
    END IF;
    IF NOT is_new THEN
      candidate := head;
      IF head.token IS NOT NULL THEN
        SELECT session, ref, rank, ticket, shared, lim, weight, passes,
            r.session = me OR (SELECT expires > clock_timestamp() FROM web_locks.session
              WHERE id = r.session) AS lives
          INTO candidate FROM web_locks.request r
          WHERE key = k AND token IS NULL ORDER BY rank, ticket LIMIT 1;
      END IF;
      next_rank := candidate.rank;
      next_ticket := candidate.ticket;
      is_new := coalesce(its_rank < candidate.rank, false);
      -- A row of an expired session is removed, and the queue is read again.
      CONTINUE WHEN NOT is_new AND candidate.lives IS NOT TRUE
        AND web_locks.bury(k, candidate.session);
    END IF;
    IF is_new THEN
      IF is_shared IS NULL THEN RETURN; END IF;
      IF NOT is_first THEN
        SELECT is_shared AS shared, its_limit AS lim, its_weight AS weight INTO candidate;
      END IF;
    END IF;
    -- Whether the candidate fits beside the holders.
    IF head.token IS NOT NULL THEN
      IF NOT candidate.shared OR NOT head.shared THEN
        CONTINUE WHEN head.lives IS NOT TRUE AND web_locks.bury(k, head.session);
        RETURN;
      END IF;
      IF candidate.lim <> known OR candidate.lim > 0 AND candidate.weight + (
        SELECT sum(weight) FROM web_locks.request
        WHERE key = k AND token IS NOT NULL AND (rank, ticket) < (next_rank, next_ticket)
        ) > candidate.lim
      THEN
        CONTINUE WHEN web_locks.bury_holders(k, me);
        RETURN;
      END IF;
    END IF;
    IF is_first THEN grants_from := (SELECT e.grants_from FROM web_locks.epoch e); END IF;
    -- Without an epoch, or during its quarantine, nothing is granted.
    IF grants_from IS NULL OR clock_timestamp() < grants_from THEN RETURN; END IF;
    IF is_new THEN
      fits := true;
      RETURN;
    END IF;
    IF candidate.passes THEN
      DELETE FROM web_locks.request WHERE session = candidate.session AND ref = candidate.ref;
      PERFORM web_locks.take_away(candidate.session, candidate.ref, '');
      CONTINUE;
    END IF;
    number := nextval('web_locks.token');
    UPDATE web_locks.request
      SET token = number, granted = clock_timestamp(), rank = least(rank, 0)
      WHERE session = candidate.session AND ref = candidate.ref;
    news := coalesce(current_setting('web_locks.news', true), '');
    IF news = '' OR news = 'later' AND pg_try_advisory_xact_lock(22351, 0) THEN
      done := pg_notify('wl_' || candidate.session, 'g ' || candidate.ref || ' ' || number);
    ELSE
      done := set_config('web_locks.news',
        news || ',' || candidate.session || ' g ' || candidate.ref || ' ' || number, true);
    END IF;
    -- After an exclusive lock, nothing else can be granted.
    IF NOT candidate.shared THEN RETURN; END IF;
  END LOOP;
END $$;

-- Records that a thief took a session's lock, or that its request has passed (thief: ''), and
-- notifies the session. The caller deletes the request.
CREATE OR REPLACE FUNCTION web_locks.take_away(its_session bigint, reference bigint, thief text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO web_locks.theft VALUES (its_session, reference, thief) ON CONFLICT DO NOTHING;
  PERFORM pg_notify('wl_' || its_session, 's ' || reference || ' ' || thief);
END $$;

-- The position of the first waiter, or a position after all rows.
CREATE OR REPLACE FUNCTION web_locks.first_waiting(k bytea, OUT rank float8, OUT ticket bigint)
LANGUAGE plpgsql AS $$
BEGIN
  SELECT r.rank, r.ticket INTO rank, ticket FROM web_locks.request r
    WHERE key = k AND token IS NULL ORDER BY r.rank, r.ticket LIMIT 1;
  IF NOT FOUND THEN rank := 'infinity'; END IF;
END $$;
