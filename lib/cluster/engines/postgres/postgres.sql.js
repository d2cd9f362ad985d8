'use strict';

/**
 * The SQL of web-locks/postgres. It is a module, because a bundle would lack a file that is read at
 * run time. So it contains no backtick, no backslash, and no dollar sign before a brace.
 */
module.exports = `
-- The lock state in PostgreSQL (13 or newer), and the functions that change it. web-locks/postgres
-- runs this on first use. Where the application may not create tables, an administrator runs it as
-- it is (docs/CLUSTER.md). "web_locks" is the schema; "/*unlogged*/" becomes UNLOGGED if the user
-- wants that. Time is clock_timestamp() of this server.
--
-- Each function runs in a transaction of its own and takes locks in this order, so that there is no
-- deadlock: the epoch (an advisory lock, then the row of "lasting"), names (advisory locks,
-- ascending), the caller's row of "session", and then nothing that could wait. Rows of other
-- sessions, and rows of "request", which users guard (FOR KEY SHARE), must be locked with SKIP
-- LOCKED. Updates of these rows must not change a key column, so that they wait for no guard.

BEGIN;
SELECT pg_advisory_xact_lock(22350, hashtext('web_locks'));

DO $create$ BEGIN
  IF to_regnamespace('web_locks') IS NULL THEN CREATE SCHEMA web_locks; END IF;
  -- If only one of these tables was dropped, its content is lost, and a new epoch must begin: see
  -- "reborn".
  IF to_regclass('web_locks.epoch') IS NOT NULL AND (to_regclass('web_locks.session') IS NULL
    OR to_regclass('web_locks.request') IS NULL OR to_regclass('web_locks.lapsed') IS NULL)
  THEN DELETE FROM web_locks.epoch; END IF;
END $create$;

-- This row is never deleted. "ttl" must be at least as long as any lease that may still last, see
-- "lower_ttl". "lives" has the last 100 known epochs, this server's and those that clients
-- reported.
CREATE TABLE IF NOT EXISTS web_locks.lasting (
  one bool PRIMARY KEY DEFAULT true CHECK (one),
  version int NOT NULL,
  durability text NOT NULL,
  ttl interval NOT NULL,
  lives text[] NOT NULL
);

-- The single row of this table is the epoch. It is as durable as the lock state. If the row is
-- missing or belongs to another server, the lock state may lack grants ("reborn"). Nothing is
-- granted before "grants_from"; "pause" is the length of that quarantine. "life" names the epoch to
-- clients. A copy of the server's data that runs as a server of its own begins another epoch.
CREATE /*unlogged*/ TABLE IF NOT EXISTS web_locks.epoch (
  one bool PRIMARY KEY DEFAULT true CHECK (one),
  identity text NOT NULL,
  life text NOT NULL,
  grants_from timestamptz NOT NULL,
  pause interval NOT NULL
);

-- Leases. "expires" = 1970: the session is dead for ever, and its rows in "request" are being
-- deleted. "conn": the number of its connection; older connections must change nothing. "client":
-- the client id. "info": JSON in ASCII, which any encoding has. "graced": the lease was extended
-- since its last renewal, because of the server's clock. "step", "answers": the last step, which
-- gets the same answers if it comes again.
CREATE /*unlogged*/ TABLE IF NOT EXISTS web_locks.session (
  id bigint PRIMARY KEY,
  conn int NOT NULL,
  bucket bytea NOT NULL,
  client text NOT NULL,
  info text NOT NULL,
  ttl interval NOT NULL,
  renewed timestamptz NOT NULL,
  expires timestamptz NOT NULL,
  graced bool NOT NULL,
  step bigint NOT NULL DEFAULT 0,
  answers bigint[]
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- The queues: the rows of a name ("key") by "rank", then by "ticket". The first rows have a token,
-- and are held. Only a transaction that has the advisory lock of a name may change the rows of the
-- name. A waiter's "rank" is minus the priority, a thief's -infinity. The "rank" of a holder is at
-- most 0, so that no waiter of priority 0 or less passes it; for waiters of a higher priority,
-- "request_one" moves the holders ahead. "token" must be in no index, so that a grant is a HOT
-- update. "rank" must be in no unique index, so that moving a row waits for no guard. "lim": the
-- limit of the name, equal in all its rows; NULL until a limit is set. A row that "passes" never
-- gets a token: it is deleted instead.
CREATE /*unlogged*/ TABLE IF NOT EXISTS web_locks.request (
  key bytea NOT NULL,
  rank float8 NOT NULL,
  ticket bigint NOT NULL,
  session bigint NOT NULL,
  ref bigint NOT NULL,
  token bigint,
  shared bool NOT NULL,
  priority int NOT NULL,
  lim int,
  weight int NOT NULL,
  name bytea NOT NULL,
  label bytea NOT NULL,
  asked timestamptz NOT NULL,
  granted timestamptz,
  passes bool NOT NULL DEFAULT false,
  PRIMARY KEY (session, ref)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX IF NOT EXISTS request_in_order ON web_locks.request (key, rank, ticket);

-- Thefts with the client id of the thief, and requests that have passed (''), until the session
-- confirms them, since a NOTIFY does not reach a session that has lost its connection. Other
-- sessions only insert rows, so a thief never waits for the session that it steals from.
CREATE /*unlogged*/ TABLE IF NOT EXISTS web_locks.theft (
  session bigint NOT NULL,
  ref bigint NOT NULL,
  thief text NOT NULL,
  PRIMARY KEY (session, ref)
);

-- The leases of sessions that expired. If this server is an older copy, such a session may have
-- renewed its lease at the original until the copy began to serve. So each of these leases counts
-- for its length again after it has expired: see "longest_lease".
CREATE /*unlogged*/ TABLE IF NOT EXISTS web_locks.lapsed (
  ttl interval NOT NULL,
  until timestamptz NOT NULL
);

-- The marks of names, and the operations that set them. Only a transaction that has the advisory
-- lock of a name may set its mark; any transaction may delete expired marks. The table is never
-- UNLOGGED, because a mark may have to last for days.
CREATE TABLE IF NOT EXISTS web_locks.mark (
  key bytea PRIMARY KEY,
  until timestamptz NOT NULL,
  session bigint NOT NULL,
  ref bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS mark_by_time ON web_locks.mark (until);

-- The identity of the server's history. A promotion begins a new timeline, and a server that loads
-- a dump of another server has another system identifier.
CREATE OR REPLACE FUNCTION web_locks.identity() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) || ' ' || system_identifier
  FROM pg_control_system()
$$;

-- The longest lease that may still last, as far as the lock state shows; NULL if there is none.
CREATE OR REPLACE FUNCTION web_locks.longest_lease() RETURNS interval LANGUAGE sql AS $$
  SELECT greatest((SELECT max(ttl) FROM web_locks.session WHERE expires > 'epoch'),
    (SELECT max(ttl) FROM web_locks.lapsed WHERE until > clock_timestamp()))
$$;

-- Lowers "ttl" to the longest lease that may still last, but not below "least_lease". It does
-- nothing while a session or an epoch begins, because their leases are not visible yet. It does
-- nothing in a quarantine either, because leases may still last that the lock state does not show.
-- It never waits.
CREATE OR REPLACE FUNCTION web_locks.lower_ttl(least_lease interval) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM web_locks.lasting
      WHERE ttl > greatest(web_locks.longest_lease(), least_lease))
    AND pg_try_advisory_xact_lock(22348, 2) AND pg_try_advisory_xact_lock(22348, 1)
  THEN
    UPDATE web_locks.lasting SET ttl = greatest(web_locks.longest_lease(), least_lease)
      WHERE ttl > greatest(web_locks.longest_lease(), least_lease)
        AND EXISTS (SELECT FROM web_locks.epoch
          WHERE identity = web_locks.identity() AND grants_from <= clock_timestamp());
  END IF;
END $$;

-- Begins a new epoch with a quarantine if the lock state may lack grants: the server is another
-- one, or a client has seen an epoch or token that this server does not know (R5). Former holders
-- lose their locks by their own clocks first. Known leases are extended to the quarantine's end, so
-- that sessions that can renew survive. The quarantine is as long as the longest lease that may
-- still last, or as the caller's "its_lease" if that is longer, because unknown sessions may have a
-- lease like it. Returns grants_from.
CREATE OR REPLACE FUNCTION web_locks.reborn(
  seen_life text, seen_token bigint, its_lease interval DEFAULT NULL
) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
  me text := web_locks.identity();
  before record;
  pause interval;
  known text[];
  latest text;
  last bigint;
  present timestamptz;
  until timestamptz;
BEGIN
  PERFORM pg_advisory_xact_lock(22348, 1);
  SELECT ttl, lives INTO pause, known FROM web_locks.lasting;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'web_locks.lasting is empty' USING ERRCODE = 'WL002';
  END IF;
  SELECT last_value INTO last FROM web_locks.token;
  SELECT * INTO before FROM web_locks.epoch;
  -- A clock that was set back must not lengthen the quarantine.
  IF before.identity = me AND before.grants_from <= clock_timestamp() + before.pause
    AND (seen_life IN ('', before.life) OR seen_life = ANY (known)) AND seen_token <= last
  THEN RETURN before.grants_from; END IF;
  IF before IS NOT NULL THEN pause := coalesce(web_locks.longest_lease(), its_lease, pause); END IF;
  pause := greatest(pause, its_lease);
  present := clock_timestamp();
  -- The new quarantine must not end before the last quarantine.
  until := greatest(present + pause, least(before.grants_from, present + before.pause));
  latest := gen_random_uuid();
  known := array_remove(known, seen_life) || array_remove(ARRAY[seen_life], '') || latest;
  UPDATE web_locks.lasting SET lives = known[greatest(cardinality(known) - 99, 1):];
  PERFORM setval('web_locks.token', greatest(
    greatest(last, seen_token) + 1000000, (extract(epoch FROM present) * 1e6)::bigint));
  -- A session may have renewed in the meantime.
  UPDATE web_locks.session
    SET expires = greatest(present + ttl, least(expires, clock_timestamp() + ttl)),
      renewed = present, graced = false
    WHERE id IN (SELECT id FROM web_locks.session WHERE expires > 'epoch'
      FOR UPDATE SKIP LOCKED);
  INSERT INTO web_locks.epoch (identity, life, grants_from, pause)
    VALUES (me, latest, until, until - present)
    ON CONFLICT (one) DO UPDATE
      SET identity = me, life = latest, grants_from = until, pause = until - present;
  RETURN until;
END $$;

-- Runs when a connection begins and at each renewal. Begins a new epoch if the server has changed,
-- or if the client's "seen_life" or "seen_token" requires it. Steps need no check, because a
-- connection never changes its server. Returns grants_from.
CREATE OR REPLACE FUNCTION web_locks.awake(
  seen_life text, seen_token bigint, its_lease interval DEFAULT NULL
) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
  until timestamptz;
BEGIN
  SELECT grants_from INTO until FROM web_locks.epoch WHERE identity = web_locks.identity()
    AND (seen_life IN ('', life)
      OR EXISTS (SELECT FROM web_locks.lasting WHERE seen_life = ANY (lives)))
    AND seen_token <= (SELECT last_value FROM web_locks.token);
  IF FOUND AND until <= clock_timestamp() THEN RETURN until; END IF;
  RETURN web_locks.reborn(seen_life, seen_token, its_lease);
END $$;

-- If the server's clock jumped, or nobody could renew for half a lease, late sessions get another
-- lease, once. This must run before any lease counts as expired, and before any lease is renewed.
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
  -- Each statement must see everything that was committed before the names were locked.
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

-- Reaps the rows of a session in a queue if the session has expired. It also deletes the session if
-- it has no other rows, because perhaps no sweep follows. It skips rows that a user guards, and
-- sessions that are renewing or stepping. Returns whether there were any rows.
CREATE OR REPLACE FUNCTION web_locks.bury(k bytea, its_session bigint) RETURNS bool
LANGUAGE plpgsql AS $$
DECLARE
  until timestamptz := (SELECT expires FROM web_locks.session WHERE id = its_session);
  lease interval;
  were_any bool;
BEGIN
  IF until > clock_timestamp() THEN RETURN false; END IF;
  IF until > 'epoch' THEN
    PERFORM web_locks.grace();
    -- From here on the session cannot renew.
    WITH ended AS (
      SELECT id, expires FROM web_locks.session
      WHERE id = its_session AND expires <= clock_timestamp() FOR UPDATE SKIP LOCKED)
    UPDATE web_locks.session s SET expires = 'epoch' FROM ended WHERE s.id = ended.id
      RETURNING ended.expires, ttl INTO until, lease;
    IF NOT FOUND THEN RETURN false; END IF;
    IF until > 'epoch' THEN
      INSERT INTO web_locks.lapsed VALUES (lease, clock_timestamp() + lease);
    END IF;
  END IF;
  DELETE FROM web_locks.request WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM web_locks.request WHERE key = k AND session = its_session
    FOR UPDATE SKIP LOCKED));
  were_any := FOUND;
  DELETE FROM web_locks.session WHERE id = (
    SELECT id FROM web_locks.session WHERE id = its_session
      AND NOT EXISTS (SELECT FROM web_locks.request WHERE session = its_session)
    FOR UPDATE SKIP LOCKED);
  -- Thefts are deleted last: other sessions can steal from a session until its requests are
  -- deleted.
  IF FOUND THEN DELETE FROM web_locks.theft WHERE session = its_session; END IF;
  RETURN were_any;
END $$;

-- Section 4.4 "process the lock request queue": grants waiters in their order until one does not
-- fit, and notifies them. The INSERT in "request_one" grants free names.
-- https://www.w3.org/TR/2023/WD-web-locks-20230105/#process-the-lock-request-queue
-- "me": the session whose step this is, which is alive; or NULL. "is_shared", "its_limit",
-- "its_weight", "its_rank": a new request that is not in the queue yet; or NULL. "fits": whether
-- that request is granted at its rank, or, with "is_ahead", ahead of all waiters. "is_first": the
-- queue is empty. "known": the name's limit, if it has one.
CREATE OR REPLACE FUNCTION web_locks.process_the_lock_request_queue(
  k bytea, me bigint, is_shared bool DEFAULT NULL, its_limit int DEFAULT 0,
  its_weight int DEFAULT 0, its_rank float8 DEFAULT NULL, is_ahead bool DEFAULT false,
  OUT fits bool, OUT is_first bool, OUT known int
) LANGUAGE plpgsql AS $$
DECLARE
  tail record;
  head record;
  candidate record;
  number bigint;
  is_new bool;
  grants_from timestamptz;
  done text;
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
      CONTINUE WHEN NOT is_new AND candidate.lives IS NOT TRUE
        AND web_locks.bury(k, candidate.session);
    END IF;
    IF is_new THEN
      IF is_shared IS NULL THEN RETURN; END IF;
      IF NOT is_first THEN
        SELECT is_shared AS shared, its_limit AS lim, its_weight AS weight INTO candidate;
      END IF;
    END IF;
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
    -- If there is no epoch, nothing is granted.
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
    done := pg_notify('wl_' || candidate.session, 'g ' || candidate.ref || ' ' || number);
    -- After an exclusive lock, nothing else can be granted.
    IF NOT candidate.shared THEN RETURN; END IF;
  END LOOP;
END $$;

-- Notifies a session that its request was deleted, either by a thief or because the request has
-- passed ('').
CREATE OR REPLACE FUNCTION web_locks.take_away(its_session bigint, reference bigint, thief text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO web_locks.theft VALUES (its_session, reference, thief) ON CONFLICT DO NOTHING;
  PERFORM pg_notify('wl_' || its_session, 's ' || reference || ' ' || thief);
END $$;

-- The position of the first waiter, or a position after all rows. Reads of the holders must end
-- there, because the queue may be long.
CREATE OR REPLACE FUNCTION web_locks.first_waiting(k bytea, OUT rank float8, OUT ticket bigint)
LANGUAGE plpgsql AS $$
BEGIN
  SELECT r.rank, r.ticket INTO rank, ticket FROM web_locks.request r
    WHERE key = k AND token IS NULL ORDER BY r.rank, r.ticket LIMIT 1;
  IF NOT FOUND THEN rank := 'infinity'; END IF;
END $$;

-- Reaps expired holders of a name, except "me". Returns whether there were any rows.
CREATE OR REPLACE FUNCTION web_locks.bury_holders(k bytea, me bigint) RETURNS bool
LANGUAGE plpgsql AS $$
DECLARE
  holder record;
  holders bigint[] := '{}';
  were_any bool := false;
BEGIN
  FOR holder IN
    SELECT session, token FROM web_locks.request WHERE key = k ORDER BY rank, ticket
  LOOP
    EXIT WHEN holder.token IS NULL;
    CONTINUE WHEN holder.session = ANY (holders) OR holder.session = me;
    holders := holders || holder.session;
    were_any := web_locks.bury(k, holder.session) OR were_any;
  END LOOP;
  RETURN were_any;
END $$;

-- Executes the operations of a session in their order, exactly once. If the last step arrives
-- again, it gets the same answers (R1). "its_conn", "its_step": the numbers of the connection and
-- of the step. The arrays have an entry for each operation:
--   kinds  0 request, 1 ifAvailable, 2 steal, 3 end, 4 request that passes, 5 ifAvailable that
--          passes
--   keys   of the name: SHA-256; NULL for an end of which only "ref" is known
--   lims, weights   of a shared request, 0 for none; most: maxPending, -1 for any number
--   priorities   of a request, higher first; of others 0
--   keeps  of an end: milliseconds to mark the name for; 0 for no mark
--   groups 0, or the number of a group
-- "listens": the connection must LISTEN from this step on. Returns an entry for each operation: > 0
-- the token of a grant; 0 waits; -1 not available; -3 too many wait; -4 ended; -6 ended and not
-- marked, because it was not held; -7 nothing was done, because a user guards the lock; -9 it has
-- passed; -10 - n the name's limit is n. If nothing was done, the only entry is -2 (the session is
-- dead) or -5 (the connection was replaced).
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
  -- Steps that contain only ends are not recorded, because ends get the same answers if they are
  -- executed again.
  is_kept bool := false;
BEGIN
  IF listens THEN PERFORM web_locks.listen(me); END IF;
  -- A step that was already executed must be answered, even if something would prevent the step
  -- now.
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

-- Executes a step that consists of one request and no theft, like "step" but faster, and returns
-- the only entry. It first records the answer that the request gets if the name is free.
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
  -- The row lock prevents other transactions from ending the session during this step.
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

-- Executes a step that consists of one end without a mark, like "step" but faster, and returns the
-- only entry. It does not lock the row of the session, because an end is correct even if the
-- session ends at this moment.
--
-- The end of a queue's last request does not wait for the disk. If the server crashes, the lock is
-- held again until "renew" reports the lock to its session, which ends it, or until the lease ends.
-- Any later grant waits for the disk, and so also for this end.
CREATE OR REPLACE FUNCTION web_locks.end_alone(
  me bigint, its_conn int, its_step bigint, reference bigint, k bytea
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  done text;
  was_last bool;
BEGIN
  done := web_locks.lock_name(k);
  DELETE FROM web_locks.request WHERE ctid = (
    SELECT ctid FROM web_locks.request WHERE session = me AND ref = reference
      AND EXISTS (SELECT FROM web_locks.session
        WHERE id = me AND conn = its_conn AND expires > clock_timestamp())
    FOR UPDATE SKIP LOCKED)
    RETURNING NOT EXISTS (SELECT FROM web_locks.request
      WHERE key = k AND NOT (session = me AND ref = reference)) INTO was_last;
  IF NOT FOUND THEN
    RETURN (web_locks.step(me, its_conn, its_step, '{3}', ARRAY[reference], ARRAY[k], '{""}',
      '{f}', '{0}', '{0}', '{0}', '{0}', '{""}', '{0}', '{0}'))[1];
  END IF;
  IF NOT was_last THEN
    was_last := (web_locks.process_the_lock_request_queue(k, me)).is_first;
  END IF;
  IF was_last THEN done := set_config('synchronous_commit', 'off', true); END IF;
  RETURN -4;
END $$;

-- Makes the connection receive the session's notifications, beginning with its next commit.
-- PostgreSQL wakes each listener for every NOTIFY, so a session listens only while it has or
-- requests something.
CREATE OR REPLACE FUNCTION web_locks.listen(me bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE 'LISTEN wl_' || me;
END $$;

-- Section 4.1 "request a lock": https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock
-- "number": a value of the sequence, which the caller must draw while the name is locked. It
-- becomes the ticket, and also the token unless this call grants other requests first.
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
    -- The call above may have granted earlier requests.
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

CREATE OR REPLACE FUNCTION web_locks.steal_one(
  me bigint, reference bigint, k bytea, its_name bytea, its_label bytea
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  r record;
  lim int;
  place bigint;
  number bigint;
  thief text := (SELECT client FROM web_locks.session WHERE id = me);
  waiting record;
  held tid[];
  free tid[];
BEGIN
  waiting := web_locks.first_waiting(k);
  held := ARRAY(SELECT ctid FROM web_locks.request WHERE key = k AND token IS NOT NULL
    AND (rank, ticket) < (waiting.rank, waiting.ticket));
  free := ARRAY(SELECT ctid FROM web_locks.request WHERE ctid = ANY (held)
    FOR UPDATE SKIP LOCKED);
  IF cardinality(free) < cardinality(held) THEN RETURN -7; END IF;
  SELECT q.lim INTO lim FROM web_locks.request q WHERE key = k LIMIT 1;
  FOR r IN DELETE FROM web_locks.request WHERE ctid = ANY (free) RETURNING session, ref LOOP
    PERFORM web_locks.take_away(r.session, r.ref, thief);
  END LOOP;
  -- The thief enters the queue ahead of all waiters, even ahead of other thieves.
  SELECT min(ticket) - 1 INTO place FROM web_locks.request WHERE key = k AND rank = '-infinity';
  IF place IS NULL THEN place := nextval('web_locks.token'); END IF;
  r := web_locks.process_the_lock_request_queue(k, me, false, is_ahead => true);
  IF r.fits THEN number := nextval('web_locks.token'); END IF;
  INSERT INTO web_locks.request VALUES (
    k, '-infinity', place, me, reference, number, false, 0, lim, 0, its_name, its_label,
    clock_timestamp(), CASE WHEN r.fits THEN clock_timestamp() END);
  RETURN coalesce(number, 0);
END $$;

-- Section 4.2 "release the lock" and 4.3 "abort the request", which do the same here:
-- https://www.w3.org/TR/2023/WD-web-locks-20230105/#release-the-lock
CREATE OR REPLACE FUNCTION web_locks.end_one(
  me bigint, reference bigint, k bytea, keep float8
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  gone record;
  is_gone bool := true;
  code bigint := -4;
BEGIN
  DELETE FROM web_locks.request WHERE ctid = (
    SELECT ctid FROM web_locks.request WHERE session = me AND ref = reference
    FOR UPDATE SKIP LOCKED)
    RETURNING token INTO gone;
  IF NOT FOUND THEN
    IF EXISTS (SELECT FROM web_locks.request WHERE session = me AND ref = reference)
    THEN RETURN -7; END IF;
    is_gone := false;
  END IF;
  IF keep > 0 THEN
    IF gone.token IS NOT NULL THEN
      PERFORM web_locks.set_mark(k, me, reference, keep);
    ELSIF NOT EXISTS (
      SELECT FROM web_locks.mark WHERE key = k AND session = me AND ref = reference)
    THEN
      code := -6;
    END IF;
  END IF;
  IF is_gone THEN PERFORM web_locks.process_the_lock_request_queue(k, me); END IF;
  RETURN code;
END $$;

-- Marks a name. This may wait for a transaction that deletes the old mark; that transaction waits
-- for nothing.
CREATE OR REPLACE FUNCTION web_locks.set_mark(
  k bytea, me bigint, reference bigint, keep float8
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  the_end timestamptz := clock_timestamp() + keep * interval '1 millisecond';
BEGIN
  INSERT INTO web_locks.mark VALUES (k, the_end, me, reference)
    ON CONFLICT (key) DO UPDATE SET until = the_end, session = me, ref = reference;
END $$;

-- Deletes up to "most" expired marks. It must come last in a transaction: see "set_mark".
CREATE OR REPLACE FUNCTION web_locks.drop_marks(most int) RETURNS void LANGUAGE sql AS $$
  DELETE FROM web_locks.mark WHERE key = ANY (ARRAY(
    SELECT key FROM web_locks.mark WHERE until <= clock_timestamp()
    ORDER BY until LIMIT most FOR UPDATE SKIP LOCKED))
$$;

-- Starts a session and returns the epoch. An advisory lock shows the connection to a client that
-- creates the tables.
CREATE OR REPLACE FUNCTION web_locks.open(
  me bigint, its_bucket bytea, its_client text, its_info text, milliseconds float8,
  seen_life text, seen_token bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  lease interval := milliseconds * interval '1 millisecond';
BEGIN
  PERFORM pg_advisory_lock_shared(22347, hashtext('web_locks'));
  PERFORM web_locks.lower_ttl(lease);
  -- From here on, no transaction lowers "ttl" until this session is visible.
  PERFORM pg_advisory_xact_lock_shared(22348, 2);
  IF EXISTS (SELECT FROM web_locks.lasting WHERE ttl < lease) THEN
    PERFORM pg_advisory_xact_lock(22348, 1);
    UPDATE web_locks.lasting SET ttl = lease WHERE ttl < lease;
  END IF;
  PERFORM web_locks.awake(seen_life, seen_token, lease);
  PERFORM web_locks.grace();
  INSERT INTO web_locks.session VALUES (me, 1, its_bucket, its_client, its_info, lease,
    clock_timestamp(), clock_timestamp() + lease, false);
  RETURN (SELECT life FROM web_locks.epoch);
END $$;

-- Begins a new connection of a session with the lease "milliseconds". Returns its number; NULL if
-- the session is dead. It waits for the current step of the older connection. It does not wait for
-- end_alone, because an end is correct even if it is executed later.
CREATE OR REPLACE FUNCTION web_locks.hello(
  me bigint, milliseconds float8, seen_life text, seen_token bigint
) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  number int;
BEGIN
  PERFORM pg_advisory_lock_shared(22347, hashtext('web_locks'));
  PERFORM web_locks.awake(seen_life, seen_token, milliseconds * interval '1 millisecond');
  PERFORM FROM web_locks.session WHERE id = me FOR UPDATE;
  PERFORM web_locks.grace();
  UPDATE web_locks.session SET conn = conn + 1 WHERE id = me AND expires > clock_timestamp()
    RETURNING conn INTO number;
  RETURN number;
END $$;

-- Extends the lease. "refs", "tokens": all locks and requests of the session, 0 for a waiter.
-- "next_expiry_in", "grants_in": milliseconds, NULL for never. "its_life": the epoch. "its_step":
-- the last recorded step. "stolen": refs and thieves as JSON, NULL for none. "told": refs of thefts
-- that the caller knows.
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
  -- A lock that a user guards cannot be ended yet; the minimum prevents a busy loop of sweeps.
  SELECT extract(epoch FROM min(expires) - clock_timestamp()) * 1000
    INTO next_expiry_in FROM web_locks.session WHERE id <> me;
  IF next_expiry_in < 50 THEN next_expiry_in := 50; END IF;
  grants_in := greatest(extract(epoch FROM grants_from - clock_timestamp()) * 1000, 0);
  SELECT life INTO its_life FROM web_locks.epoch;
  PERFORM web_locks.lower_ttl(NULL);
END $$;

-- Ends sessions in the next 100 names after "beyond", and grants what becomes free there. It also
-- processes the names that the session "waiting" waits for. Locks that a user guards are left for a
-- later sweep. Returns the name after which to continue; NULL at the end.
CREATE OR REPLACE FUNCTION web_locks.end_sessions(
  ids bigint[], beyond bytea, waiting bigint, is_own bool
) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
  keys bytea[] := ARRAY(SELECT DISTINCT key FROM web_locks.request
    WHERE session = ANY (ids || waiting) AND (token IS NULL OR session = ANY (ids))
      AND key > beyond
    ORDER BY key LIMIT 100);
  dead bigint[];
  k bytea;
BEGIN
  PERFORM web_locks.lock_names(keys);
  IF is_own THEN
    PERFORM FROM web_locks.session WHERE id = ANY (ids) FOR UPDATE;
    UPDATE web_locks.session SET expires = 'epoch' WHERE id = ANY (ids);
    -- The statement above may have waited for a step of the session, which has made more requests.
    IF EXISTS (SELECT FROM web_locks.request WHERE session = ANY (ids) AND key > beyond
      AND key <> ALL (keys) AND (keys[100] IS NULL OR key < keys[100]))
    THEN RETURN beyond; END IF;
    dead := ids;
  ELSE
    PERFORM web_locks.grace();
    WITH ended AS (
      SELECT id, expires FROM web_locks.session
      WHERE id = ANY (ids) AND expires <= clock_timestamp() FOR UPDATE SKIP LOCKED),
    marked AS (
      UPDATE web_locks.session s SET expires = 'epoch' FROM ended WHERE s.id = ended.id
      RETURNING s.id, ttl, ended.expires),
    noted AS (
      INSERT INTO web_locks.lapsed SELECT ttl, clock_timestamp() + ttl FROM marked
        WHERE expires > 'epoch')
    SELECT array_agg(id) INTO dead FROM marked;
  END IF;
  DELETE FROM web_locks.request WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM web_locks.request WHERE session = ANY (dead) AND key = ANY (keys)
    FOR UPDATE SKIP LOCKED));
  FOREACH k IN ARRAY keys LOOP
    PERFORM web_locks.process_the_lock_request_queue(k, NULL);
  END LOOP;
  DELETE FROM web_locks.session s WHERE id = ANY (dead)
    AND NOT EXISTS (SELECT FROM web_locks.request r WHERE r.session = s.id);
  -- Thefts are deleted last: other sessions can steal from a session until its requests are
  -- deleted.
  DELETE FROM web_locks.theft WHERE session = ANY (dead);
  RETURN keys[100];
END $$;

-- Reaps expired sessions. After a quarantine it also processes the caller's names. "beyond" and the
-- result: see "end_sessions"; callers must begin with '' and repeat until NULL. Like a step, this
-- function does not check the epoch.
CREATE OR REPLACE FUNCTION web_locks.sweep(me bigint, beyond bytea) RETURNS bytea
LANGUAGE plpgsql AS $$
DECLARE
  waiting bigint := (SELECT me FROM web_locks.epoch, web_locks.lasting
    WHERE clock_timestamp() BETWEEN grants_from AND grants_from + 2 * ttl);
  last bytea;
BEGIN
  last := web_locks.end_sessions(
    ARRAY(SELECT id FROM web_locks.session WHERE expires <= clock_timestamp()),
    beyond, waiting, false);
  DELETE FROM web_locks.lapsed WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM web_locks.lapsed WHERE until <= clock_timestamp() FOR UPDATE SKIP LOCKED));
  PERFORM web_locks.drop_marks(1000);
  RETURN last;
END $$;

-- Ends the caller's session. "beyond" and the result are as in "sweep". On a connection without
-- "open" or "hello", "awake" must run first, in a transaction of its own.
CREATE OR REPLACE FUNCTION web_locks.close(me bigint, beyond bytea) RETURNS bytea
LANGUAGE plpgsql AS $$
BEGIN
  RETURN web_locks.end_sessions(ARRAY[me], beyond, NULL, true);
END $$;

-- Tickets and tokens. The sequence starts at the current time, so that tokens still grow if the
-- schema is created again. If no connection is left that used an old schema, a new schema has lost
-- nothing, so its epoch begins without a quarantine. Tables that were emptied have no epoch.
DO $create$ DECLARE
  first_life text := gen_random_uuid();
  is_new bool := false;
BEGIN
  IF to_regclass('web_locks.token') IS NULL THEN
    CREATE SEQUENCE web_locks.token;
    PERFORM setval('web_locks.token', (extract(epoch FROM clock_timestamp()) * 1e6)::bigint);
    is_new := pg_try_advisory_xact_lock(22347, hashtext('web_locks'));
  END IF;
  INSERT INTO web_locks.lasting (version, durability, ttl, lives)
    VALUES (9, 'logged'/*durability*/, interval '1 second', ARRAY[first_life])
    ON CONFLICT DO NOTHING;
  IF is_new THEN
    INSERT INTO web_locks.epoch (identity, life, grants_from, pause)
      VALUES (web_locks.identity(), first_life, 'epoch', interval '0') ON CONFLICT DO NOTHING;
  END IF;
END $create$;
COMMIT;
`;
