-- The lock state in PostgreSQL (13 or newer), and the steps that change it. web-locks/postgres runs
-- this on first use; where the application may not create tables, an administrator runs it as it is
-- (docs/CLUSTER.md). `web_locks` is the schema, `/*unlogged*/` is UNLOGGED where that is wanted.
--
-- Each function is called in a transaction of its own, which it changes everything in. The order of
-- locks, so that nobody waits in a circle: names (advisory locks, ascending), then the caller's own
-- row of `session`, then nothing that can wait but a row that a user guards. Rows of other sessions
-- are taken only if nobody has them (SKIP LOCKED).
--
-- Time is clock_timestamp() of this server, never a client's.

BEGIN;
SELECT pg_advisory_xact_lock(22348, 0);

DO $create$ BEGIN
  IF to_regnamespace('web_locks') IS NULL THEN CREATE SCHEMA web_locks; END IF;
END $create$;

-- What has to outlast everything, one row. `ttl`: the longest lease that was ever given.
CREATE TABLE IF NOT EXISTS web_locks.lasting (
  one bool PRIMARY KEY DEFAULT true CHECK (one),
  version int NOT NULL,
  durability text NOT NULL,
  ttl interval NOT NULL
);

-- One row. It is as durable as the lock state: if it is not there, or of another server's life, the
-- lock state may lack something (`reborn`). Nothing is granted before `grants_from`.
CREATE /*unlogged*/ TABLE IF NOT EXISTS web_locks.epoch (
  one bool PRIMARY KEY DEFAULT true CHECK (one),
  identity text NOT NULL,
  grants_from timestamptz NOT NULL
);

-- A lease. `expires` = 1970: dead for ever, its rows in `request` are being deleted. `conn`:
-- the number of its connection; older ones change nothing. `graced`: since its last renewal the
-- lease was extended because of the server's clock.
CREATE /*unlogged*/ TABLE IF NOT EXISTS web_locks.session (
  id bigint PRIMARY KEY,
  conn int NOT NULL,
  bucket bytea NOT NULL,
  info jsonb NOT NULL,
  ttl interval NOT NULL,
  renewed timestamptz NOT NULL,
  expires timestamptz NOT NULL,
  graced bool NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- The queues: those of a name (`key`) by `ticket`, first those with a token, which are held. Only
-- who has the advisory lock of a name changes its rows. `token` is in no index, so that a grant is
-- a HOT update. `lim`: the limit of the name, the same in all its rows; NULL while nobody has set
-- it.
CREATE /*unlogged*/ TABLE IF NOT EXISTS web_locks.request (
  key bytea NOT NULL,
  ticket bigint NOT NULL,
  session bigint NOT NULL,
  ref bigint NOT NULL,
  token bigint,
  shared bool NOT NULL,
  lim int,
  weight int NOT NULL,
  name bytea NOT NULL,
  label bytea NOT NULL,
  asked timestamptz NOT NULL,
  granted timestamptz,
  PRIMARY KEY (key, ticket)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE UNIQUE INDEX IF NOT EXISTS request_of_session ON web_locks.request (session, ref);

-- Names that are marked until a time, by which operation last. Only who has the advisory lock of a
-- name sets its mark; anybody deletes what is over. Never UNLOGGED: it may have to last for days.
CREATE TABLE IF NOT EXISTS web_locks.mark (
  key bytea PRIMARY KEY,
  until timestamptz NOT NULL,
  session bigint NOT NULL,
  ref bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS mark_by_time ON web_locks.mark (until);

-- Tickets and tokens. Starts at the time, so that tokens go on growing if the schema is made anew.
DO $create$ BEGIN
  IF to_regclass('web_locks.token') IS NULL THEN
    CREATE SEQUENCE web_locks.token;
    PERFORM setval('web_locks.token', (extract(epoch FROM clock_timestamp()) * 1e6)::bigint);
  END IF;
END $create$;

-- Which life of which server this is: a promotion begins a new timeline, a dump that is loaded
-- elsewhere meets another system.
CREATE OR REPLACE FUNCTION web_locks.identity() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) || ' ' || system_identifier
  FROM pg_control_system()
$$;

-- Begins a quarantine, if the lock state may lack something: who held a lock hears of it by his own
-- clock before anybody else gets it. Leases that are still known last as long, so that who can
-- renew goes on. Returns grants_from.
CREATE OR REPLACE FUNCTION web_locks.reborn() RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
  me text := web_locks.identity();
  pause interval;
  last bigint;
  until timestamptz;
BEGIN
  PERFORM pg_advisory_xact_lock(22348, 1);
  SELECT ttl INTO pause FROM web_locks.lasting;
  SELECT grants_from INTO until FROM web_locks.epoch WHERE identity = me;
  -- A clock that was set back must not make it longer.
  IF FOUND AND until <= clock_timestamp() + pause THEN RETURN until; END IF;
  until := clock_timestamp() + pause;
  SELECT last_value INTO last FROM web_locks.token;
  PERFORM setval('web_locks.token',
    greatest(last + 1000000, (extract(epoch FROM clock_timestamp()) * 1e6)::bigint));
  UPDATE web_locks.session
    SET expires = clock_timestamp() + ttl, renewed = clock_timestamp(), graced = false
    WHERE id IN (SELECT id FROM web_locks.session WHERE expires > 'epoch'
      FOR UPDATE SKIP LOCKED);
  INSERT INTO web_locks.epoch (identity, grants_from) VALUES (me, until)
    ON CONFLICT (one) DO UPDATE SET identity = me, grants_from = until;
  RETURN until;
END $$;

-- What begins all that begins with a connection, or renews. A step needs the epoch only as it is:
-- another life of the server has other connections. Returns grants_from.
CREATE OR REPLACE FUNCTION web_locks.awake() RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
  until timestamptz;
BEGIN
  SELECT grants_from INTO until FROM web_locks.epoch WHERE identity = web_locks.identity();
  IF FOUND AND until <= clock_timestamp() THEN RETURN until; END IF;
  RETURN web_locks.reborn();
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

-- Takes the advisory locks of names.
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

-- Deletes the first rows of a name whose sessions are dead. Returns whether there were any.
CREATE OR REPLACE FUNCTION web_locks.bury(k bytea) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
  dead bigint[];
BEGIN
  SELECT array_agg(DISTINCT r.session) INTO dead
    FROM (SELECT session FROM web_locks.request WHERE key = k ORDER BY ticket LIMIT 100) r
    LEFT JOIN web_locks.session s ON s.id = r.session
    WHERE s.id IS NULL OR s.expires <= clock_timestamp();
  IF dead IS NULL THEN RETURN false; END IF;
  PERFORM web_locks.grace();
  -- From here on they cannot renew. Who is renewing, or in a step, has his row.
  UPDATE web_locks.session SET expires = 'epoch' WHERE id IN (
    SELECT id FROM web_locks.session
    WHERE id = ANY (dead) AND expires > 'epoch' AND expires <= clock_timestamp()
    FOR UPDATE SKIP LOCKED);
  DELETE FROM web_locks.request WHERE key = k AND ticket IN (
    SELECT ticket FROM web_locks.request r
    WHERE key = k AND session = ANY (dead) AND NOT EXISTS (
      SELECT FROM web_locks.session s WHERE s.id = r.session AND s.expires > 'epoch')
    FOR UPDATE SKIP LOCKED);
  RETURN FOUND;
END $$;

-- Grants what can be granted of a name, and tells those who get it.
CREATE OR REPLACE FUNCTION web_locks.process(k bytea, grants_from timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  r record;
  units bigint := 0;
  is_held bool := false;
  number bigint;
BEGIN
  IF clock_timestamp() < grants_from THEN RETURN; END IF;
  PERFORM web_locks.bury(k);
  FOR r IN SELECT * FROM web_locks.request WHERE key = k ORDER BY ticket LOOP
    IF r.token IS NULL THEN
      EXIT WHEN is_held AND (NOT r.shared OR r.lim > 0 AND units + r.weight > r.lim);
      number := nextval('web_locks.token');
      UPDATE web_locks.request SET token = number, granted = clock_timestamp()
        WHERE key = k AND ticket = r.ticket;
      PERFORM pg_notify('wl_' || r.session, 'g ' || r.ref || ' ' || number);
    END IF;
    EXIT WHEN NOT r.shared;
    is_held := true;
    units := units + r.weight;
  END LOOP;
END $$;

-- Does operations of a session in their order. The arrays have one entry for each:
--   kind   0 a request, 1 one that does not wait, 2 a theft, 3 an end
--   key    of the name: SHA-256; NULL for an end of which only `ref` is known
--   lims, weights   of a shared request, 0 for none; most: so many may wait, -1 for any number
--   keeps  of an end: milliseconds for which the name is marked; 0 for none
--   groups 0, or what those that do not wait have in common that want all or nothing
-- Returns an entry for each: > 0 granted, the token; 0 it waits; -1 not available; -3 too many
-- wait; -4 ended; -6 ended, and not marked, as it was not held; -10 - n: the limit of the name is
-- n. Or a single -2: the session is dead; -5: the connection was replaced; nothing was done then.
CREATE OR REPLACE FUNCTION web_locks.step(
  me bigint, number int, kinds int[], refs bigint[], keys bytea[], names bytea[], shareds bool[],
  lims int[], weights int[], most int[], labels bytea[], groups int[], keeps float8[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
  codes bigint[] := '{}';
  code bigint;
  k bytea := keys[1];
  mine record;
  count int := cardinality(kinds);
  from_i int := 1;
  marks int := 0;
BEGIN
  -- Each statement has to see what was committed before the names were locked.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'web_locks needs READ COMMITTED' USING ERRCODE = 'WL001';
  END IF;
  IF count = 1 AND k IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(22349, (get_byte(k, 0) << 24) | (get_byte(k, 1) << 16)
      | (get_byte(k, 2) << 8) | get_byte(k, 3));
  ELSE
    FOR i IN 1 .. count LOOP
      IF keys[i] IS NULL THEN
        keys[i] := (SELECT key FROM web_locks.request WHERE session = me AND ref = refs[i]);
      END IF;
    END LOOP;
    PERFORM web_locks.lock_names(keys);
  END IF;

  -- Nobody ends the session while this step has its row.
  SELECT conn, expires, grants_from INTO mine
    FROM web_locks.session, web_locks.epoch WHERE id = me FOR KEY SHARE OF session;
  IF FOUND AND mine.expires <= clock_timestamp() THEN
    PERFORM web_locks.grace();
    SELECT conn, expires, grants_from INTO mine
      FROM web_locks.session, web_locks.epoch WHERE id = me;
  END IF;
  IF NOT FOUND OR mine.expires <= clock_timestamp() THEN RETURN '{-2}'; END IF;
  IF mine.conn <> number THEN RETURN '{-5}'; END IF;

  FOR i IN 1 .. count LOOP
    IF kinds[i] = 3 THEN
      code := web_locks.end_one(me, refs[i], keys[i], mine.grants_from, keeps[i]);
      IF keeps[i] > 0 THEN marks := marks + 1; END IF;
    ELSIF kinds[i] = 2 THEN
      code := web_locks.steal_one(
        me, refs[i], keys[i], names[i], labels[i], mine.grants_from);
    ELSIF groups[i] > 0 AND i > 1 AND groups[i] = groups[i - 1] AND codes[i - 1] < 0
      AND kinds[i] = 1 THEN
      code := -1;
    ELSE
      IF i = 1 OR groups[i] <> groups[i - 1] THEN from_i := i; END IF;
      code := web_locks.request_one(me, kinds[i] = 0, refs[i], keys[i], names[i], shareds[i],
        lims[i], weights[i], most[i], labels[i], mine.grants_from);
      IF kinds[i] = 1 AND code < 0 AND groups[i] > 0 THEN
        -- All or nothing: those of the group that were granted just now are gone again.
        FOR j IN from_i .. i - 1 LOOP
          PERFORM web_locks.end_one(me, refs[j], keys[j], mine.grants_from, 0);
          codes[j] := -1;
        END LOOP;
      END IF;
    END IF;
    codes[i] := code;
  END LOOP;
  IF marks > 0 THEN PERFORM web_locks.drop_marks(2 * marks); END IF;
  RETURN codes;
END $$;

CREATE OR REPLACE FUNCTION web_locks.request_one(
  me bigint, waits bool, reference bigint, k bytea, its_name bytea, is_shared bool, its_limit int,
  its_weight int, most int, its_label bytea, grants_from timestamptz
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  r record;
  number bigint;
  present timestamptz := clock_timestamp();
  is_first bool;
  is_free bool;
  was_buried bool := false;
  known int;
BEGIN
  LOOP
    SELECT token, shared, lim INTO r FROM web_locks.request WHERE key = k
      ORDER BY ticket DESC LIMIT 1;
    is_first := NOT FOUND;
    is_free := is_first;
    known := CASE WHEN is_first THEN NULL ELSE r.lim END;
    EXIT WHEN is_first;
    number := (SELECT coalesce(token, 0) FROM web_locks.request
      WHERE session = me AND ref = reference);
    IF number IS NOT NULL THEN RETURN number; END IF;
    -- The last one is held, so all are, and no other request is overtaken.
    is_free := r.token IS NOT NULL AND r.shared AND is_shared
      AND (known = 0 OR its_weight + (
        SELECT sum(weight) FROM web_locks.request WHERE key = k) <= known);
    EXIT WHEN is_free AND known = its_limit OR was_buried;
    was_buried := true;
    EXIT WHEN NOT web_locks.bury(k);
    PERFORM web_locks.process(k, grants_from);
  END LOOP;
  IF is_shared AND known <> its_limit THEN RETURN -10 - known::bigint; END IF;
  is_free := is_free AND present >= grants_from;
  IF NOT is_free THEN
    IF NOT waits THEN RETURN -1; END IF;
    IF most >= 0 AND most <= (SELECT count(*) FROM (
      SELECT FROM web_locks.request WHERE key = k AND token IS NULL LIMIT most) waiting)
    THEN RETURN -3; END IF;
  END IF;
  IF is_shared AND known IS NULL THEN
    known := its_limit;
    IF NOT is_first THEN
      UPDATE web_locks.request SET lim = its_limit WHERE key = k;
    END IF;
  END IF;
  number := nextval('web_locks.token');
  IF is_free THEN
    INSERT INTO web_locks.request VALUES (k, number, me, reference, number, is_shared, known,
      its_weight, its_name, its_label, present, present);
    RETURN number;
  END IF;
  INSERT INTO web_locks.request VALUES (k, number, me, reference, NULL, is_shared, known,
    its_weight, its_name, its_label, present, NULL);
  RETURN 0;
END $$;

CREATE OR REPLACE FUNCTION web_locks.steal_one(
  me bigint, reference bigint, k bytea, its_name bytea, its_label bytea, grants_from timestamptz
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  r record;
  lim int;
  place bigint;
  client text := (SELECT info ->> 'clientId' FROM web_locks.session WHERE id = me);
  number bigint;
BEGIN
  SELECT token INTO r FROM web_locks.request WHERE session = me AND ref = reference;
  IF FOUND THEN RETURN coalesce(r.token, 0); END IF;
  SELECT q.lim INTO lim FROM web_locks.request q WHERE key = k LIMIT 1;
  FOR r IN DELETE FROM web_locks.request WHERE key = k AND token IS NOT NULL
    RETURNING session, ref
  LOOP
    PERFORM pg_notify('wl_' || r.session, 's ' || r.ref || ' ' || client);
  END LOOP;
  -- Ahead of everybody: held locks are always ahead of those that wait.
  SELECT min(ticket) - 1 INTO place FROM web_locks.request WHERE key = k;
  IF place IS NULL THEN place := nextval('web_locks.token'); END IF;
  IF clock_timestamp() >= grants_from THEN number := nextval('web_locks.token'); END IF;
  INSERT INTO web_locks.request VALUES (
    k, place, me, reference, number, false, lim, 0, its_name, its_label, clock_timestamp(),
    CASE WHEN number IS NOT NULL THEN clock_timestamp() END);
  RETURN coalesce(number, 0);
END $$;

CREATE OR REPLACE FUNCTION web_locks.end_one(
  me bigint, reference bigint, k bytea, grants_from timestamptz, keep float8
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  gone record;
  head record;
  code bigint := -4;
BEGIN
  DELETE FROM web_locks.request WHERE session = me AND ref = reference
    RETURNING ticket, token, lim INTO gone;
  IF keep > 0 THEN
    IF gone.token IS NOT NULL THEN
      PERFORM web_locks.set_mark(k, me, reference, keep);
    ELSIF NOT EXISTS (
      SELECT FROM web_locks.mark WHERE key = k AND session = me AND ref = reference)
    THEN
      code := -6;
    END IF;
  END IF;
  IF gone IS NULL THEN RETURN code; END IF;
  SELECT token INTO head FROM web_locks.request WHERE key = k ORDER BY ticket LIMIT 1;
  -- One of many readers went, so those behind them wait on.
  IF NOT FOUND OR head.token IS NOT NULL AND gone.token IS NOT NULL AND gone.lim = 0
  THEN RETURN code; END IF;
  -- Who waits ahead of it waits on, and so do those behind it.
  IF gone.token IS NULL THEN
    SELECT token INTO head FROM web_locks.request WHERE key = k AND ticket < gone.ticket
      ORDER BY ticket DESC LIMIT 1;
    IF FOUND AND head.token IS NULL THEN RETURN code; END IF;
  END IF;
  PERFORM web_locks.process(k, grants_from);
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

-- Deletes up to so many marks that are over. To come last in a transaction, see `set_mark`.
CREATE OR REPLACE FUNCTION web_locks.drop_marks(most int) RETURNS void LANGUAGE sql AS $$
  DELETE FROM web_locks.mark WHERE key = ANY (ARRAY(
    SELECT key FROM web_locks.mark WHERE until <= clock_timestamp()
    ORDER BY until LIMIT most FOR UPDATE SKIP LOCKED))
$$;

-- Starts a session. Returns its lease in milliseconds.
CREATE OR REPLACE FUNCTION web_locks.open(
  me bigint, its_bucket bytea, its_info jsonb, milliseconds float8
) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
  lease interval := milliseconds * interval '1 millisecond';
BEGIN
  UPDATE web_locks.lasting SET ttl = lease WHERE ttl < lease;
  PERFORM web_locks.awake();
  PERFORM web_locks.grace();
  INSERT INTO web_locks.session VALUES (
    me, 1, its_bucket, its_info, lease, clock_timestamp(), clock_timestamp() + lease, false);
  RETURN milliseconds;
END $$;

-- A new connection of a session. Returns its number; NULL if the session is dead. Waits until what
-- an older connection is doing is done.
CREATE OR REPLACE FUNCTION web_locks.hello(me bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  number int;
BEGIN
  PERFORM web_locks.awake();
  PERFORM web_locks.grace();
  PERFORM FROM web_locks.session WHERE id = me FOR UPDATE;
  UPDATE web_locks.session SET conn = conn + 1 WHERE id = me AND expires > clock_timestamp()
    RETURNING conn INTO number;
  RETURN number;
END $$;

-- Extends the lease. `refs`, `tokens`: all locks and requests of the session, 0 for one that waits;
-- `next_expiry_in`, `grants_in`: milliseconds, NULL for never.
CREATE OR REPLACE FUNCTION web_locks.renew(
  me bigint, number int, OUT alive bool, OUT refs bigint[], OUT tokens bigint[],
  OUT next_expiry_in float8, OUT grants_in float8
) LANGUAGE plpgsql AS $$
DECLARE
  grants_from timestamptz := web_locks.awake();
BEGIN
  PERFORM web_locks.grace();
  UPDATE web_locks.session
    SET expires = clock_timestamp() + ttl, renewed = clock_timestamp(), graced = false
    WHERE id = me AND conn = number AND expires > clock_timestamp();
  alive := FOUND;
  IF NOT alive THEN RETURN; END IF;
  SELECT array_agg(ref), array_agg(coalesce(token, 0)) INTO refs, tokens
    FROM web_locks.request WHERE session = me;
  -- Not less than a little: what a user guards cannot be ended yet.
  SELECT extract(epoch FROM min(expires) - clock_timestamp()) * 1000
    INTO next_expiry_in FROM web_locks.session WHERE id <> me;
  IF next_expiry_in < 50 THEN next_expiry_in := 50; END IF;
  grants_in := greatest(extract(epoch FROM grants_from - clock_timestamp()) * 1000, 0);
END $$;

-- Ends sessions, as far as 100 names allow, and grants what becomes free, and what waits for
-- `others`. Returns whether there is more to do.
CREATE OR REPLACE FUNCTION web_locks.end_sessions(
  ids bigint[], others bytea[], grants_from timestamptz, is_own bool
) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
  keys bytea[] := ARRAY(
    SELECT DISTINCT key FROM web_locks.request WHERE session = ANY (ids) LIMIT 100) || others;
  dead bigint[];
  k bytea;
BEGIN
  PERFORM web_locks.lock_names(keys);
  IF is_own THEN
    PERFORM FROM web_locks.session WHERE id = ANY (ids) FOR UPDATE;
    UPDATE web_locks.session SET expires = 'epoch' WHERE id = ANY (ids);
    dead := ids;
  ELSE
    WITH marked AS (
      UPDATE web_locks.session SET expires = 'epoch' WHERE id IN (
        SELECT id FROM web_locks.session
        WHERE id = ANY (ids) AND expires <= clock_timestamp()
        FOR UPDATE SKIP LOCKED)
      RETURNING id)
    SELECT array_agg(id) INTO dead FROM marked;
  END IF;
  DELETE FROM web_locks.request WHERE (session, ref) IN (
    SELECT session, ref FROM web_locks.request WHERE session = ANY (dead) AND key = ANY (keys)
    FOR UPDATE SKIP LOCKED);
  FOREACH k IN ARRAY keys LOOP
    PERFORM web_locks.process(k, grants_from);
  END LOOP;
  DELETE FROM web_locks.session s WHERE id = ANY (dead)
    AND NOT EXISTS (SELECT FROM web_locks.request r WHERE r.session = s.id);
  RETURN EXISTS (
    SELECT FROM web_locks.request WHERE session = ANY (dead) AND NOT key = ANY (keys));
END $$;

-- Ends the sessions whose lease has run out; after a quarantine sets the caller's names going.
-- Returns whether there is more to do.
CREATE OR REPLACE FUNCTION web_locks.sweep(me bigint) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
  grants_from timestamptz := web_locks.awake();
  others bytea[] := '{}';
  is_more bool;
BEGIN
  PERFORM web_locks.grace();
  IF clock_timestamp() BETWEEN grants_from
    AND grants_from + 2 * (SELECT ttl FROM web_locks.lasting)
  THEN
    others := ARRAY(SELECT DISTINCT key FROM web_locks.request
      WHERE session = me AND token IS NULL LIMIT 2000);
  END IF;
  is_more := web_locks.end_sessions(
    ARRAY(SELECT id FROM web_locks.session WHERE expires <= clock_timestamp() LIMIT 100),
    others, grants_from, false);
  PERFORM web_locks.drop_marks(1000);
  RETURN is_more;
END $$;

-- Ends one's own session. Returns whether there is more to do.
CREATE OR REPLACE FUNCTION web_locks.close(me bigint) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
  grants_from timestamptz := web_locks.awake();
BEGIN
  RETURN web_locks.end_sessions(ARRAY[me], '{}', grants_from, true);
END $$;

-- A schema that is made anew has lost nothing.
WITH first AS (
  INSERT INTO web_locks.lasting (version, durability, ttl)
  VALUES (2, 'logged'/*durability*/, interval '1 second') ON CONFLICT DO NOTHING RETURNING 1)
INSERT INTO web_locks.epoch (identity, grants_from) SELECT web_locks.identity(), 'epoch' FROM first;
COMMIT;
