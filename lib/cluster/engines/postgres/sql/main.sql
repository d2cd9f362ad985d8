-- The lock state in PostgreSQL (13 or newer), and the functions that change it. web-locks/postgres
-- runs this on first use. If the application may not create tables, an administrator runs the
-- script unchanged (docs/CLUSTER.md). "web_locks" is the schema; "/*unlogged*/" becomes UNLOGGED if
-- the user wants that. Time is clock_timestamp() of this server.
--
-- Parameters that many functions have:
--   me         the caller's session
--   its_conn   the number of the connection that calls; an older one must change nothing
--   its_step   the number of the step that this call executes
--   reference  "ref" of a request, which is unique in its session
--   k          the key of a name: SHA-256
--   seen_life, seen_token   the epoch and the greatest token that the client has seen; or '', 0
--
-- Each function that clients call runs in a transaction of its own. It takes locks in this order,
-- so that there is no deadlock: the epoch (an advisory lock, then the row of "lasting"), names
-- (advisory locks, ascending), the caller's row of "session". After these it must not wait for a
-- lock; the only exception is "set_mark", which says why. Rows of other sessions, and rows of
-- "request", which users guard (FOR KEY SHARE), must be locked with SKIP LOCKED; the advisory
-- lock of hand-overs (22351) is only tried. Updates of these rows must not change a key column,
-- so that they wait for no guard.

BEGIN;
SELECT pg_advisory_xact_lock(22350, hashtext('web_locks'));

\ir tables.sql
\ir epoch.sql
\ir grace.sql
\ir lock_names.sql
\ir bury.sql
\ir process_the_lock_request_queue.sql
\ir step.sql
\ir request_alone.sql
\ir end_alone.sql
\ir then_notify.sql
\ir listen.sql
\ir request_one.sql
\ir steal_one.sql
\ir end_one.sql
\ir publish_one.sql
\ir marks.sql
\ir open.sql
\ir hello.sql
\ir renew.sql
\ir end_sessions.sql
\ir sweep.sql
\ir close.sql
\ir first_epoch.sql
COMMIT;

-- Migrations of schemas that older versions of this library have created, and may go on to use.
-- Each has a transaction of its own, after the functions that need it. None of them may change
-- later.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
\ir migration_1.sql
COMMIT;
