-- The lock state of a bucket (or of a shard) in Redis, and the commands that change it: one script,
-- which `npm run embed` generates from this directory. Redis runs nothing else during a call, so
-- each call is atomic. If Redis accepts no writes, it refuses the first write of a call, so a call
-- writes everything or nothing, unless the user lacks permissions: see "F.check_rights".
-- Times are milliseconds of this server's clock; numbers are below 2^53.
--
--   KEYS[1]  P, the prefix of all keys of the bucket, with their hash tag
--   KEYS[2]  in a cluster P:m, so that a node that lacks a part of the bucket refuses the call
--
--   ARGV[1]  command: the file of each command says what follows ARGV[4], and what it returns
--   ARGV[2]  session
--   ARGV[3]  "link": number of its connection, pause (the length of a quarantine in ms), strict
--            (how many replicas must be attached)
--   ARGV[4]  idle (ms after which keys that nobody renews expire; 0: never)
--
-- A command may return -2: the session does not exist; or -5: a newer connection replaced the
-- caller's, or the replies to the step are no longer kept.
--
--   P:m             HASH  version, shards, run (run_id of the server that the state belongs to),
--                         life (epoch), lives (digests of known epochs, the latest first), from
--                         (end of the quarantine), length (of the quarantine), pause (the longest
--                         quarantine that a live session needs), lapsed (pauses of sessions that
--                         expired, and until when each counts), renewed (last renewal), sessions
--                         (how many), tok (last ticket or token), missed (until this time, names
--                         may have requests of sessions that are gone)
--   P:s             ZSET  session -> end of its lease; 0: dead, being deleted
--   P:i:<session>   HASH  conn (number of its connection), link (ARGV's, if its steps may take the
--                         fast path), ttl, pause (ARGV's), info, client, till (as in P:s), graced
--                         (its lease was extended because of the clock), step (its last one), 0,
--                         1, … (the last steps that may not be repeated, by number modulo WINDOW,
--                         with their replies), kept (when its keys' expiry was last set; 0: they do
--                         not expire), in_shard ("1": it also receives messages of SPUBLISH),
--                         r<ref> (key of the name), d<ref> (data that was published with a lock, in
--                         JSON)
--   P:t:<session>   HASH  ref -> client id of the thief, or '' if it has passed, until the session
--                         confirms it
--   P:n:<key>       a name in use. For a single lock that nobody waits for, it has three lines:
--                         ref|session and row; limit or ''; name. Otherwise it is "q", and the
--                         next two keys exist:
--   P:r:<key>       HASH  name, limit, held, units (held), alone (held exclusively), ref|session ->
--                         ticket row. A row: mode weight token asked granted priority label
--   P:q:<key>       ZSET  ticket|ref|session -> rank: the queue; its first "held" members are held.
--                         Tickets have 16 digits, so they sort within a rank. A waiter's rank is
--                         minus its priority, a thief's -inf. A holder's is at most 0, so no waiter
--                         of priority 0 or less passes it; for others "F.insert" moves the holders
--   P:k             ZSET  key of a name -> end of its mark
--   P:w             HASH  key of a marked name -> ref|session that set the mark
--   P:c:<session>   the session's channel
--   {wl:}server     HASH  id (run_id and replication id of a promoted server), since (when a bucket
--                         was first opened on that server). Not used in a cluster, where this key
--                         would be in another slot

-- @include examine.lua

local ARGV, call = ARGV, redis.call
local P, command, me, link, idle = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- How many steps of a session may be under way.
local WINDOW = 4
local M, INFO = P .. ':m', P .. ':i:' .. me

local time, now
-- The last ticket or token; "last_text" is the same number as text, if this call assigned it.
local last_number, last_text = 0, nil

-- "codes" are the replies of a step. "is_done": the step is complete and will be recorded.
-- "is_repeatable": executing it again gives the same replies, as for ends without marks. A table
-- that is made with spare capacity need not grow; growing would take half as long as a command.
local codes, is_done, is_repeatable = { nil }, false, true
-- Whether the step directly follows the last one that was executed.
local is_next = false
-- link, step and till of the caller's session, as the fast path has read them.
local my_fields = {}
-- What to write to the session's hash: its key, then fields and values.
local fields = { INFO, nil, nil, nil, nil, nil, nil }

-- @include step_fast.lua

local reply, messages = codes, nil

-- The slow path.
if not is_done then

time = time or call('TIME')
now = now or time[1] * 1000 + math.floor(time[2] / 1000)
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
local number, pause, strict = string.match(link, '^(%d+) (%d+) (%d+)$')
pause, strict, idle = tonumber(pause), tonumber(strict), tonumber(idle)
-- The end of the quarantine, and whether this call gave a ticket or token.
local from, is_counted = 0, false
-- F holds all functions except three of the next file, since Lua limits the number of locals.
-- "call" is declared once more, because Lua creates closures faster over variables that were
-- declared late.
local call, F = call, {}

-- @include process_the_lock_request_queue.lua

-- The epoch, known fields of the bucket (run, epochs, sessions, length), and the caller's session.
local epoch, known, my = '', {}, nil

-- @include keys.lua
-- @include rows.lua
-- @include names.lua
-- @include queue.lua
-- @include sessions.lua
-- @include epoch.lua
-- @include request.lua
-- @include steal.lua
-- @include release_or_abort.lua
-- @include publish.lua
-- @include step_slow.lua

if command == 'step' then

reply = F.continue_step()

-- Steps do not need these functions.
else

-- @include open.lua
-- @include hello.lua
-- @include renew.lua
-- @include extend.lua
-- @include sweep.lua
-- @include close.lua
-- @include query.lua
-- @include marked.lua

reply = command == 'open' and F.find_mismatch() or F.check_epoch() or F[command]()

end

if is_counted then last_text = F.int(last_number) end

end

-- Records the step, and its replies unless executing the step again would give the same replies.
if is_done then
  local n, count = ARGV[6], #fields
  fields[count + 1], fields[count + 2] = 'step', n
  if not is_repeatable then
    -- The number of the step modulo WINDOW, as text.
    fields[count + 3] = string.sub('0123', n % WINDOW + 1, n % WINDOW + 1)
    fields[count + 4] = n .. '\n' .. (codes[2] and table.concat(codes, '\n') or codes[1])
  end
  call('HSET', unpack(fields))
end
if last_text then call('HSET', M, 'tok', last_text) end
-- Messages come last: if the user lacks permission to publish, the step must still be complete.
if messages then
  for _, what in ipairs(messages) do
    local channel = P .. ':c:' .. what[1]
    -- Only a cluster has KEYS[2].
    local is_in_shard = KEYS[2] and redis.pcall('HGET', P .. ':i:' .. what[1], 'in_shard') == '1'
    -- Such a session also receives what is published to all nodes, for want of the other right.
    if not is_in_shard or type(redis.pcall('SPUBLISH', channel, what[2])) ~= 'number' then
      redis.pcall('PUBLISH', channel, what[2])
    end
  end
end
-- A single reply is returned without an array, because creating one would take longer.
return command == 'step' and #reply == 1 and reply[1] or reply
