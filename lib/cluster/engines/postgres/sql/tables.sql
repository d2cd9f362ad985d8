DO $create$ BEGIN
  IF to_regnamespace('web_locks') IS NULL THEN CREATE SCHEMA web_locks; END IF;
  -- If "session", "request" or "lapsed" was dropped, its content is lost, and a new epoch must
  -- begin: see "reborn".
  IF to_regclass('web_locks.epoch') IS NOT NULL AND (to_regclass('web_locks.session') IS NULL
    OR to_regclass('web_locks.request') IS NULL OR to_regclass('web_locks.lapsed') IS NULL)
  THEN DELETE FROM web_locks.epoch; END IF;
END $create$;

-- The only row of this table is never deleted. "ttl" must be at least as long as any lease that may
-- still last, see "lower_ttl". "lives" has the last 100 known epochs, this server's and those that
-- clients reported.
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
-- deleted. "conn": the number of the connection; older connections must change nothing. "client":
-- the client id. "info": JSON in ASCII, which any encoding has. "graced": the lease was extended
-- since its last renewal, because of the server's clock. "step", "answers": the last recorded step,
-- which gets the same answers if it comes again. Steps of ends without marks are not recorded.
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
-- gets a token: it is deleted instead. "data": what was published with a lock, in JSON; see
-- publish_one.sql.
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
  data bytea,
  PRIMARY KEY (session, ref)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX IF NOT EXISTS request_in_order ON web_locks.request (key, rank, ticket);

-- A row for each stolen lock (with the client id of the thief) and each passed request (with ''),
-- until the session confirms it: a NOTIFY does not reach a session without a connection. Other
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
