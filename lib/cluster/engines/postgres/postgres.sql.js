'use strict';

/**
 * The SQL of web-locks/postgres. In a module, so that bundlers take it along: what is read from
 * beside a file is not there in a bundle. So there is no backtick in it, no backslash, and no
 * dollar sign before a brace.
 */
module.exports = `
-- The lock state in PostgreSQL (13 or newer), and the steps that change it. web-locks/postgres runs
-- this on first use; where the application may not create tables, an administrator runs it as it is
-- (docs/CLUSTER.md). "web_locks" is the schema, "/*unlogged*/" is UNLOGGED where that is wanted.
--
-- Each function is called in a transaction of its own, which it changes everything in. The order of
-- locks, so that nobody waits in a circle: the server's life (an advisory lock, then the row of
-- "lasting"), names (advisory locks, ascending), the caller's own row of "session", then nothing
-- that can wait. Rows of other sessions, and rows of "request", which users guard (FOR KEY SHARE),
-- are taken only if nobody has them (SKIP LOCKED); updates of those change nothing of their keys,
-- so they wait for no guard.
--
-- Time is clock_timestamp() of this server, never a client's.

BEGIN;
SELECT pg_advisory_xact_lock(22350, hashtext('web_locks'));

DO $create$ BEGIN
  IF to_regnamespace('web_locks') IS NULL THEN CREATE SCHEMA web_locks; END IF;
  -- What one of them had is lost, if only that one was dropped: see "reborn".
  IF to_regclass('web_locks.epoch') IS NOT NULL AND (to_regclass('web_locks.session') IS NULL
    OR to_regclass('web_locks.request') IS NULL OR to_regclass('web_locks.lapsed') IS NULL)
  THEN DELETE FROM web_locks.epoch; END IF;
END $create$;

-- What has to outlast everything, one row. "ttl": no lease that can still last is longer; see
-- "lower_ttl". "lives": lives that are no news, this server's own and those that clients told of,
-- the last 100.
CREATE TABLE IF NOT EXISTS web_locks.lasting (
  one bool PRIMARY KEY DEFAULT true CHECK (one),
  version int NOT NULL,
  durability text NOT NULL,
  ttl interval NOT NULL,
  lives text[] NOT NULL
);

-- One row. It is as durable as the lock state: if it is not there, or of another server's life, the
-- lock state may lack something ("reborn"). Nothing is granted before "grants_from", which was
-- "pause" away when the life began. "life" is what clients know the server by: a copy of its data
-- that goes on by itself begins another one.
CREATE /*unlogged*/ TABLE IF NOT EXISTS web_locks.epoch (
  one bool PRIMARY KEY DEFAULT true CHECK (one),
  identity text NOT NULL,
  life text NOT NULL,
  grants_from timestamptz NOT NULL,
  pause interval NOT NULL
);

-- A lease. "expires" = 1970: dead for ever, its rows in "request" are being deleted. "conn":
-- the number of its connection; older ones change nothing. "client": its id; "info": JSON of
-- ASCII, which any encoding has. "graced": since its last renewal the lease was extended because of
-- the server's clock. "step", "answers": of its last step that has to be answered alike if it comes
-- again.
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

-- The queues: those of a name ("key") by "rank", and those of one rank by "ticket"; first those
-- with a token, which are held. Only who has the advisory lock of a name changes its rows. "rank"
-- of who waits is minus the priority, of a thief -infinity. That of who holds is 0 at most, so that
-- nobody of an ordinary priority or less gets ahead of him; before somebody of more waits,
-- "request_one" moves the holders ahead. "token" is in no index, so that a grant is a HOT update;
-- "rank" is in no unique one, so that a move waits for no guard. "lim": the limit of the name, the
-- same in all its rows; NULL while nobody has set it. A row that "passes" never gets a token: it is
-- deleted instead.
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

-- What was stolen from whom, by the client id of the thief, and what has passed (''), until the
-- session tells that it knows: what NOTIFY tells does not reach who is cut off. Only inserted by
-- others, so that a thief never waits for whom it robs.
CREATE /*unlogged*/ TABLE IF NOT EXISTS web_locks.theft (
  session bigint NOT NULL,
  ref bigint NOT NULL,
  thief text NOT NULL,
  PRIMARY KEY (session, ref)
);

-- The leases of sessions that were ended when their time was over. If this is an older copy of a
-- server, the session can have renewed its lease there until the copy began to serve. So each
-- counts for as long as it lasts, until a time: see "longest_lease".
CREATE /*unlogged*/ TABLE IF NOT EXISTS web_locks.lapsed (
  ttl interval NOT NULL,
  until timestamptz NOT NULL
);

-- Names that are marked until a time, by which operation last. Only who has the advisory lock of a
-- name sets its mark; anybody deletes what is over. Never UNLOGGED: it may have to last for days.
CREATE TABLE IF NOT EXISTS web_locks.mark (
  key bytea PRIMARY KEY,
  until timestamptz NOT NULL,
  session bigint NOT NULL,
  ref bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS mark_by_time ON web_locks.mark (until);

-- Which life of which server this is: a promotion begins a new timeline, a dump that is loaded
-- elsewhere meets another system.
CREATE OR REPLACE FUNCTION web_locks.identity() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) || ' ' || system_identifier
  FROM pg_control_system()
$$;

-- The longest lease that can still last, as far as the lock state tells; NULL for none.
CREATE OR REPLACE FUNCTION web_locks.longest_lease() RETURNS interval LANGUAGE sql AS $$
  SELECT greatest((SELECT max(ttl) FROM web_locks.session WHERE expires > 'epoch'),
    (SELECT max(ttl) FROM web_locks.lapsed WHERE until > clock_timestamp()))
$$;

-- Forgets a lease that was longer than any that can still last, or than "least_lease". Not while
-- somebody opens a session, or a life begins, as their leases cannot be seen yet; nor in a
-- quarantine, in which leases last that the lock state does not tell of. Waits for nobody.
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

-- Begins another life, with a quarantine, if the lock state may lack something: who held a lock
-- hears of it by his own clock before anybody else gets it. So it may if the server is another one,
-- or a client has seen a life, or a token, that this one knows nothing of. Leases that are still
-- known last as long, so that who can renew goes on, and whose lease is as long as any is swept
-- away when it ends. The quarantine is as long as the longest lease that can still last: the lock
-- state tells that, if it is not lost as a whole. It is no shorter than "its_lease", that of who
-- calls, if it gives one: those that are not known may be like it. Returns grants_from.
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
  -- A clock that was set back must not make it longer.
  IF before.identity = me AND before.grants_from <= clock_timestamp() + before.pause
    AND (seen_life IN ('', before.life) OR seen_life = ANY (known)) AND seen_token <= last
  THEN RETURN before.grants_from; END IF;
  IF before IS NOT NULL THEN pause := coalesce(web_locks.longest_lease(), its_lease, pause); END IF;
  pause := greatest(pause, its_lease);
  present := clock_timestamp();
  -- What the last quarantine waits for, this one does, too.
  until := greatest(present + pause, least(before.grants_from, present + before.pause));
  latest := gen_random_uuid();
  known := array_remove(known, seen_life) || array_remove(ARRAY[seen_life], '') || latest;
  UPDATE web_locks.lasting SET lives = known[greatest(cardinality(known) - 99, 1):];
  PERFORM setval('web_locks.token', greatest(
    greatest(last, seen_token) + 1000000, (extract(epoch FROM present) * 1e6)::bigint));
  -- Some may have renewed since.
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

-- What begins all that begins with a connection, or renews. A step needs the epoch only as it is:
-- another server has other connections. "seen_life", "seen_token": what the client has seen of
-- servers, '' and 0 for nothing. Returns grants_from.
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

-- Extends leases if the server's clock has jumped, or everybody stood still: if nobody has renewed
-- for half a lease, those whose lease it is could not, so they get another, once. To be called
-- before any lease is taken for expired, and before one is renewed.
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

-- Takes the advisory lock of a name. It is assigned, not PERFORMed, and so is what it calls: an
-- expression costs less than a query.
CREATE OR REPLACE FUNCTION web_locks.lock_name(k bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  done text;
BEGIN
  -- Each statement has to see what was committed before the name was locked.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'web_locks needs READ COMMITTED' USING ERRCODE = 'WL001';
  END IF;
  done := pg_advisory_xact_lock(22349, (get_byte(k, 0) << 24) | (get_byte(k, 1) << 16)
    | (get_byte(k, 2) << 8) | get_byte(k, 3));
END $$;

-- Those of several.
CREATE OR REPLACE FUNCTION web_locks.lock_names(keys bytea[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  slot int;
BEGIN
  -- Each statement has to see what was committed before the names were locked.
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

-- Deletes the rows of a session in the queue of a name, if it is dead, and itself, if it has no
-- others: nobody may come to sweep. Returns whether there were any rows: not those that a user
-- guards, nor of who is renewing, or in a step.
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
    -- From here on it cannot renew.
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
  -- After that: who has no request is robbed no more.
  IF FOUND THEN DELETE FROM web_locks.theft WHERE session = its_session; END IF;
  RETURN were_any;
END $$;

-- Processes the lock request queue of a name, as the specification calls it: from its head on,
-- grants what can be granted, and tells those who get it. The one place that decides about a grant.
-- "me": the session whose step this is, NULL for none: it was alive when that began, so it is until
-- that is done. "is_shared", "its_limit", "its_weight", "its_rank": of a request that is made, and
-- is not in the queue yet; NULL for none. "fits": whether it is granted, where its rank is, or
-- ahead of all that wait ("is_ahead"). "is_first": the queue is empty, so that nobody was granted
-- anything; "known": the limit of the name, NULL while it has none.
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
  -- Behind all who hold the name, so that nothing is read of who waits: the queue may be long.
  next_rank float8;
  next_ticket bigint;
BEGIN
  fits := false;
  LOOP
    next_rank := 'infinity';
    -- All that is needed of a queue whose head waits, which is what a hand-over meets, is read at
    -- once: on the way to who is granted the lock each statement counts.
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
    -- Nothing is granted while there is no epoch.
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
    -- Nothing else fits beside it.
    IF NOT candidate.shared THEN RETURN; END IF;
  END LOOP;
END $$;

-- Tells a session that its request is deleted: by which thief, or '' if it has passed.
CREATE OR REPLACE FUNCTION web_locks.take_away(its_session bigint, reference bigint, thief text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO web_locks.theft VALUES (its_session, reference, thief) ON CONFLICT DO NOTHING;
  PERFORM pg_notify('wl_' || its_session, 's ' || reference || ' ' || thief);
END $$;

-- The place of the first who waits for a name; behind all, if nobody does. What is read of those
-- who hold a name ends there: the queue may be long.
CREATE OR REPLACE FUNCTION web_locks.first_waiting(k bytea, OUT rank float8, OUT ticket bigint)
LANGUAGE plpgsql AS $$
BEGIN
  SELECT r.rank, r.ticket INTO rank, ticket FROM web_locks.request r
    WHERE key = k AND token IS NULL ORDER BY r.rank, r.ticket LIMIT 1;
  IF NOT FOUND THEN rank := 'infinity'; END IF;
END $$;

-- Deletes the rows of dead sessions that hold a name, not those of "me". Returns whether there were
-- any.
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

-- Does operations of a session in their order, once: the last step that comes again is answered as
-- it was. "its_conn", "its_step": the numbers of the connection and of the step. The arrays have
-- one entry for each operation:
--   kinds  0 a request, 1 one that does not wait, 2 a theft, 3 an end, 4 a request that passes,
--          5 one that passes and does not wait
--   keys   of the name: SHA-256; NULL for an end of which only "ref" is known
--   lims, weights   of a shared request, 0 for none; most: so many may wait, -1 for any number
--   priorities   of a request, higher first; of others 0
--   keeps  of an end: milliseconds for which the name is marked; 0 for none
--   groups 0, or what those that do not wait have in common that want all or nothing
-- "listens": the connection hears from here on what is told to the session, see "listen". Returns
-- an entry for each: > 0 granted, the token; 0 it waits; -1 not available; -3 too many
-- wait; -4 ended; -6 ended, and not marked, as it was not held; -7 a user guards the lock, nothing
-- was done; -9 it has passed; -10 - n: the limit of the name is n. Or a single -2: the session is
-- dead; -5: the connection was replaced; nothing was done then.
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
  -- Ends are answered alike whenever they come.
  is_kept bool := false;
BEGIN
  IF listens THEN PERFORM web_locks.listen(me); END IF;
  -- What was done is answered whatever would keep it from being done.
  SELECT answers INTO mine FROM web_locks.session
    WHERE id = me AND conn = its_conn AND step = its_step AND expires > clock_timestamp();
  IF FOUND THEN RETURN mine.answers; END IF;
  FOR i IN 1 .. count LOOP
    IF keys[i] IS NULL THEN
      keys[i] := (SELECT key FROM web_locks.request WHERE session = me AND ref = refs[i]);
    END IF;
  END LOOP;
  PERFORM web_locks.lock_names(keys);

  -- Nobody ends the session while this step has its row.
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
        -- All or nothing: those of the group that were granted just now are gone again.
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

-- A step of one request, which is not a theft: the same as "step", and returns its only entry.
-- Records first what it answers where the name is free.
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
  -- Nobody ends the session while this step has its row.
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

-- A step of one end of a name that is not marked: the same as "step", and returns its only entry.
--
-- It does not keep others from the session, as what it does is right if that ends just now.
--
-- Who ends the last of a queue does not wait until that is on disk. If the server crashes the lock
-- is held once more, until its session, which is told of it by "renew", ends it again; or with the
-- lease. Whoever was granted anything after that waited for the disk, and so for this, too.
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

-- The connection hears from its next commit on what is told to the session. Each who listens is
-- woken by all that is told to anybody: a session does so only as long as it may be told anything.
CREATE OR REPLACE FUNCTION web_locks.listen(me bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE 'LISTEN wl_' || me;
END $$;

-- "number": the ticket, and the token if nobody was granted anything before it in this step; made
-- while the name was locked.
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
  -- A name that nobody has, which is the most frequent, needs no look at its queue.
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
    -- Those ahead of it may have been granted just now.
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
  -- Ahead of everybody, also of thieves who wait.
  SELECT min(ticket) - 1 INTO place FROM web_locks.request WHERE key = k AND rank = '-infinity';
  IF place IS NULL THEN place := nextval('web_locks.token'); END IF;
  r := web_locks.process_the_lock_request_queue(k, me, false, is_ahead => true);
  IF r.fits THEN number := nextval('web_locks.token'); END IF;
  INSERT INTO web_locks.request VALUES (
    k, '-infinity', place, me, reference, number, false, 0, lim, 0, its_name, its_label,
    clock_timestamp(), CASE WHEN r.fits THEN clock_timestamp() END);
  RETURN coalesce(number, 0);
END $$;

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

-- Marks a name. May wait for somebody who deletes the mark that is there, and will wait for nobody.
CREATE OR REPLACE FUNCTION web_locks.set_mark(
  k bytea, me bigint, reference bigint, keep float8
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  the_end timestamptz := clock_timestamp() + keep * interval '1 millisecond';
BEGIN
  INSERT INTO web_locks.mark VALUES (k, the_end, me, reference)
    ON CONFLICT (key) DO UPDATE SET until = the_end, session = me, ref = reference;
END $$;

-- Deletes up to so many marks that are over. To come last in a transaction, see "set_mark".
CREATE OR REPLACE FUNCTION web_locks.drop_marks(most int) RETURNS void LANGUAGE sql AS $$
  DELETE FROM web_locks.mark WHERE key = ANY (ARRAY(
    SELECT key FROM web_locks.mark WHERE until <= clock_timestamp()
    ORDER BY until LIMIT most FOR UPDATE SKIP LOCKED))
$$;

-- Starts a session. Returns the server's life. Its connection is known by an advisory lock to who
-- makes the tables.
CREATE OR REPLACE FUNCTION web_locks.open(
  me bigint, its_bucket bytea, its_client text, its_info text, milliseconds float8,
  seen_life text, seen_token bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  lease interval := milliseconds * interval '1 millisecond';
BEGIN
  PERFORM pg_advisory_lock_shared(22347, hashtext('web_locks'));
  PERFORM web_locks.lower_ttl(lease);
  -- From here on nobody lowers it before this session is seen.
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

-- A new connection of a session. "milliseconds": its lease. Returns its number; NULL if the session
-- is dead. Waits until what an older connection is doing is done, but for an end alone: that may
-- come later, and is what it is then, too.
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

-- Extends the lease. "refs", "tokens": all locks and requests of the session, 0 for one that waits;
-- "next_expiry_in", "grants_in": milliseconds, NULL for never; "its_life": the server's;
-- "its_step": the last one that was recorded; "stolen": refs and thieves, JSON, NULL for none;
-- "told": the refs of those that the caller knows of by earlier answers.
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
  -- Not less than a little: what a user guards cannot be ended yet.
  SELECT extract(epoch FROM min(expires) - clock_timestamp()) * 1000
    INTO next_expiry_in FROM web_locks.session WHERE id <> me;
  IF next_expiry_in < 50 THEN next_expiry_in := 50; END IF;
  grants_in := greatest(extract(epoch FROM grants_from - clock_timestamp()) * 1000, 0);
  SELECT life INTO its_life FROM web_locks.epoch;
  PERFORM web_locks.lower_ttl(NULL);
END $$;

-- Ends sessions, as far as the 100 names allow whose keys are next to "beyond", and grants what
-- becomes free, and what "waiting", a session, waits for; NULL for none. What a user guards stays,
-- for a later sweep. Returns where to go on, NULL if this was all.
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
    -- A step by another connection, which was waited for, has asked for more.
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
  -- After that: who has no request is robbed no more.
  DELETE FROM web_locks.theft WHERE session = ANY (dead);
  RETURN keys[100];
END $$;

-- Ends the sessions whose lease has run out; after a quarantine sets the caller's names going.
-- "beyond", and what is returned: see "end_sessions"; '' at first, and again until it is NULL. It
-- needs the epoch only as it is, as a step does.
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

-- Ends one's own session. "beyond", and what is returned: as in "sweep". By a connection that did
-- not begin with "open" or "hello", "awake" comes first, in a transaction of its own.
CREATE OR REPLACE FUNCTION web_locks.close(me bigint, beyond bytea) RETURNS bytea
LANGUAGE plpgsql AS $$
BEGIN
  RETURN web_locks.end_sessions(ARRAY[me], beyond, NULL, true);
END $$;

-- Tickets and tokens. Starts at the time, so that tokens go on growing if the schema is made anew.
-- What is made anew has lost nothing, if nobody is connected who has used it. Tables that were
-- there and are empty have: there is no epoch then.
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
