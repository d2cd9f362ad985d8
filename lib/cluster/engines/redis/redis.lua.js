'use strict';

/**
 * The Lua script of web-locks/redis. It is a module, because a bundle would lack a file that is
 * read at run time; so the script has no backtick, and no dollar sign before a brace.
 */
module.exports = String.raw`
-- The lock state of a bucket (or of a shard) in Redis, and the calls that change it. Redis runs
-- nothing else during a call, so each is atomic. Redis may refuse the first write of a call, but no
-- later one, so a call is done or not. Times are milliseconds of this server's clock; numbers are
-- below 2^53.
--
--   KEYS[1]  P, the prefix of all keys of the bucket, with their hash tag
--   KEYS[2]  in a cluster P:m, so that a node without all of the bucket refuses to run this
--
--   ARGV     1 command, 2 session, 3 "link": number of its connection, pause (the length of a
--            quarantine in ms), strict (how many replicas must be attached), 4 idle (ms after which
--            keys that nobody renews expire; 0: never), then the command's own arguments.
--            Commands and replies:
--
--   examine  INFO server, memory, replication
--   open     5 life (the epoch), 6 token (the greatest that the client has seen), 7 ttl, 8 info,
--            9 client, 10 version, 11 shards
--              open, epoch, ms to the end of the quarantine; or 'version' or 'shards' and the
--              bucket's own
--   hello    5 life, 6 token
--              the number of the connection; or -2
--   step     5 run_id of the connection's server ('': unknown; then a step of ends, too, checks
--            whether the session is dead), 6 number of the step, 7 number of the step before it
--            (0: none that matters), then the operations. An end is
--              x<ref> <keep>
--              <key of the name; '' if unknown>
--            and a request (r), ifAvailable (i) or steal (t) is
--              <kind><ref> <group> <maxPending>
--              <key of the name>
--              <mode: x, s, or p if it passes> <weight>
--              <priority> <label>
--              <limit; '' unless the mode is s>
--              <name>
--              a code for each operation: above 0 the token of a grant; 0 waits; -1 not available;
--              -3 too many wait; -4 ended; -6 ended and not marked, because it was not held; -9
--              has passed; -10 - n the name's limit is n; e<text> an error. Or -2, -5 or -8 for the
--              step. A single code is not wrapped in an array
--   renew    5 life, 6 token, 7 a message to publish on the session's channel, to test it, then
--            the refs of thefts that the caller knows
--              0, ms to the next end of another session's lease (-1: none), ms to the end of the
--              quarantine, epoch, number of the last recorded step (0: none), then ref and token
--              (0: waits) of all that the session has, ref and s<client id of the thief> of all
--              that was stolen from it, and ref and s of what has passed; or -2, -5
--   sweep    whether there is more to do: 1, 0
--   close    the same
--   query    5 key of a name, or '' for all, 6 'held' for its locks alone, or ''
--              the time, then for each request: ref, name, limit, info, row
--   marked   5 key of a name
--              1, 0
--
--   -2: the session does not exist; -5: a newer connection or a later step replaced the caller; -8:
--   the step before it is not the last that was done.
--
--   P:m             HASH  version, shards, run (run_id of the server that the state belongs to),
--                         life (epoch), lives (digests of known epochs, the latest first), from
--                         (end of the quarantine), length (of the quarantine), pause (the longest
--                         quarantine that a live session needs), lapsed (pauses of sessions that
--                         expired, and until when each counts), renewed (last renewal), sessions
--                         (how many), tok (last ticket or token), missed (until then names may hold
--                         requests of sessions that are gone)
--   P:s             ZSET  session -> end of its lease; 0: dead, being deleted
--   P:i:<session>   HASH  conn (number of its connection), link (ARGV's, if its steps may take the
--                         fast path), ttl, pause (ARGV's), info, client, till (as in P:s), graced
--                         (its lease was extended because of the clock), step (its last one), 0,
--                         1, … (the last steps that may not be repeated, by number modulo WINDOW,
--                         with their replies), kept (when its keys' expiry was last set; 0: they do
--                         not expire), r<ref> (key of the name)
--   P:t:<session>   HASH  ref -> client id of the thief, or '' if it has passed, until the session
--                         confirms it
--   P:n:<key>       a name in use. For a lock that is alone: the lines ref|session row, limit (if
--                         any), name. Otherwise "q", and these exist:
--   P:r:<key>       HASH  name, limit, held, units (held), alone (held exclusively), ref|session ->
--                         ticket row. A row: mode weight token asked granted priority label
--   P:q:<key>       ZSET  ticket|ref|session -> rank: the queue; its first "held" members are held.
--                         Tickets have 16 digits, so they sort within a rank. A waiter's rank is
--                         minus its priority, a thief's -inf. A holder's is at most 0, so no waiter
--                         of priority 0 or less passes it; for others "F.insert" moves the holders
--   P:k             ZSET  key of a name -> end of its mark
--   P:w             HASH  key of a marked name -> ref|session that set the mark
--   P:c:<session>   the session's channel
--   {wl:}server     HASH  id (of a promoted server, as primary), since (when a bucket was first
--                         opened there). Not used in a cluster, where it is in another slot

-- The adapter runs this first, to refuse a server that is unfit for locks.
if ARGV[1] == 'examine' then
  local call = redis.call
  return { call('INFO', 'server'), call('INFO', 'memory'), call('INFO', 'replication') }
end

local ARGV, call = ARGV, redis.call
local P, command, me, link, idle = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- How many steps of a session may be under way.
local WINDOW = 4
local M, INFO = P .. ':m', P .. ':i:' .. me

local time, now
-- The last ticket or token; as text if this call gave it.
local last_number, last_text = 0, nil

-- The fast path of a step. It handles the usual operations with as few commands as possible:
-- requests of free names, and ends of locks that nobody waits for, while server and session are as
-- before. If an operation is not of that kind, the slow path continues there.

-- The replies of a step; whether the step is complete and to be recorded; whether it may be
-- repeated, as ends without marks may. A table made with room does not grow, which would take half
-- as long as a command.
local codes, is_done, repeats = { nil }, false, true
-- Whether it directly follows the last step that was done.
local is_next = false
-- What to write to the session's hash: its key, then fields and values.
local fields = { INFO, nil, nil, nil, nil, nil, nil }

if command == 'step' then
  local its = call('HMGET', INFO, 'link', 'step', 'till')
  local run, i, last, has_only_ends = ARGV[5], 8, #ARGV, true
  is_next = ARGV[6] - (its[2] or 0) > 0 and (ARGV[7] == '0' or ARGV[7] == its[2])
  -- Whether "F.awake" and "F.refusal" would find nothing to do.
  local is_plain = run ~= '' and its[1] == link and is_next
  -- A step of ends needs neither a live session nor a known server, because an end is never wrong.
  -- With an empty run_id the caller wants to know whether the session is dead.
  for k = i, last do has_only_ends = has_only_ends and string.byte(ARGV[k]) == 120 end
  if is_plain and not has_only_ends then
    time = call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
    local it = call('HMGET', M, 'run', 'from', 'tok')
    last_number = tonumber(it[3] or 0)
    is_plain = it[1] == run and it[2] - now <= 0 and last_number >= 10000000
      and its[3] and its[3] - now > 0
  end
  -- Refs of ended requests, and keys of names that become free.
  local ended, gone = { nil }, { nil }
  local at
  while is_plain and i <= last do
    local op = ARGV[i]
    if string.byte(op) == 120 then
      local ref, key = string.match(op, '^x(%d+) 0\n(.+)$')
      if not ref then break end
      local own, mine = P .. ':n:' .. key, ref .. '|' .. me .. ' '
      -- Somebody may have written another type to the key.
      local one = redis.pcall('GET', own)
      if type(one) ~= 'string' or string.sub(one, 1, #mine) ~= mine then break end
      local n = #ended + 1
      ended[n], gone[n], codes[#codes + 1] = 'r' .. ref, own, '-4'
    else
      -- The pattern excludes members of groups, and requests that pass.
      local ref, key, mode, rest =
        string.match(op, '^[ir](%d+) 0 %S+\n([^\n]+)\n([xs] %d+)\n(.*)$')
      if not ref then break end
      -- Section 4.1 "request a lock" for a free name: SET NX is its grant, beside
      -- process_the_lock_request_queue below.
      -- https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock
      local token, n = last_number + 1, #fields
      -- '%d' has 32 bits on some servers, and '%.0f' takes as long as a command, so the halves are
      -- formatted.
      local text = string.format('%d%07d', math.floor(token / 10000000), token % 10000000)
      -- This is "now" as text, which is faster than a format.
      at = at or time[1] .. string.sub('00000' .. time[2], -6, -4)
      -- This is the format of "F.write_one".
      local own, one = P .. ':n:' .. key, ref .. '|' .. me .. ' ' .. mode .. ' ' .. text .. ' '
        .. at .. ' ' .. at .. ' ' .. rest
      local set = idle == '0' and redis.pcall('SET', own, one, 'NX')
        or idle ~= '0' and redis.pcall('SET', own, one, 'NX', 'PX', idle)
      -- The name is in use, or Redis refuses writes and the slow path finds out why.
      if not set or set.err then break end
      last_number, last_text, repeats = token, text, false
      fields[n + 1], fields[n + 2], codes[#codes + 1] = 'r' .. ref, key, text
    end
    i = i + 1
  end
  is_done = is_plain and i > last
  -- A request is written before its end, if both are in this step.
  if #fields > 1 and (ended[1] or not is_done) then
    call('HSET', unpack(fields))
    fields = { INFO }
  end
  if ended[1] then
    call('DEL', unpack(gone))
    call('HDEL', INFO, unpack(ended))
  end
end

-- The reply, and the messages to publish.
local reply, news = codes, nil

-- The slow path.
if not is_done then

time = time or call('TIME')
now = now or time[1] * 1000 + math.floor(time[2] / 1000)
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
local number, pause, strict = string.match(link, '^(%d+) (%d+) (%d+)$')
pause, strict, idle = tonumber(pause), tonumber(strict), tonumber(idle)
-- The end of the quarantine, and whether this call gave a ticket or token.
local from, is_counted = 0, false
-- F holds all functions but the next ones, since Lua limits the number of locals. Both names are
-- declared here, because Lua finds late declarations faster when it makes closures.
local call, F = call, {}

local function next_number()
  last_number, is_counted = last_number + 1, true
  return last_number
end

-- Adds a row to the sums of the held ones.
local function count_held(it, row)
  it.held, it.units, it.alone = it.held + 1, it.units + row.weight, row.mode == 'x'
end

-- Section 4.4 "process the lock request queue": grants waiters in their order until one does not
-- fit, and notifies them. The fast path above grants free names, too.
-- https://www.w3.org/TR/2023/WD-web-locks-20230105/#process-the-lock-request-queue
-- "mine" is the caller's request: it is not notified, and if it is not in the queue yet, it takes
-- part by its rank and is not written.
local function process_the_lock_request_queue(it, mine)
  if now < from then return end
  while true do
    local row = it.held < it.count and F.first_waiting(it) or mine
    local is_behind = mine and row ~= mine and not mine.is_queued and mine.rank < row.rank
    if is_behind or mine and row.member == mine.member then row = mine end
    if not row or row.token > 0 then return end
    local is_shareable = row.mode == 's' and not it.alone
    local is_limited = (it.limit or 0) > 0 and it.units + row.weight > it.limit
    if it.held > 0 and (is_limited or not is_shareable) then return end
    row.passes = row.mode == 'p'
    if not row.passes then
      row.token, row.granted = next_number(), now
      count_held(it, row)
    end
    if row == mine and not row.is_queued then return end
    if row.passes then F.pass(it, row, mine) else F.note_grant(it, row, mine) end
  end
end

-- Writes the grant of a row that is queued.
function F.note_grant(it, row, mine)
  if row.rank > 0 then call('ZADD', F.queue_of(it.key), 0, F.place_of(row)) end
  F.write(it, row.member, F.text_of_queued(row))
  if row ~= mine then
    local ref, session = F.split(row.member)
    F.tell(session, 'g ' .. ref .. ' ' .. F.int(row.token))
  end
end

-- The value of a name's key if there is a queue.
local QUEUED = 'q'

-- The epoch, what is known of the bucket ("run", "lives", "sessions", "length"), and the caller's
-- session.
local life, known, my = '', {}, nil

local S = P .. ':s'
-- Formats halves as above, or a rare number that is negative, fractional or infinite as a whole.
function F.int(n)
  if n < 0 or n % 1 ~= 0 then return string.format('%.0f', n) end
  if n < 10000000 then return string.format('%d', n) end
  return string.format('%d%07d', math.floor(n / 10000000), n % 10000000)
end

local MARKS, MARKERS = P .. ':k', P .. ':w'
function F.info_of(session) return P .. ':i:' .. session end
function F.thefts_of(session) return P .. ':t:' .. session end
function F.queue_of(key) return P .. ':q:' .. key end
function F.own_of(key) return P .. ':n:' .. key end
function F.rows_of(key) return P .. ':r:' .. key end

function F.tell(session, what)
  news = news or {}
  news[#news + 1] = { P .. ':c:' .. session, what }
end

-- Sets a key to expire long after all leases; but not on a server that evicts keys which expire.
function F.keep(key)
  if idle > 0 then call('PEXPIRE', key, F.int(idle)) else call('PERSIST', key) end
end

-- The keys of a name expire together, because without the first one the name is free.
function F.keep_name(key)
  for _, its in ipairs({ F.own_of(key), F.rows_of(key), F.queue_of(key) }) do F.keep(its) end
end

function F.text_of(row)
  return table.concat({ row.mode, F.int(row.weight), F.int(row.token), F.int(row.asked),
    F.int(row.granted), row.priority, row.label }, ' ')
end

-- The row of a new request.
function F.new_row(op)
  return { member = op.ref .. '|' .. me, mode = op.mode, weight = op.weight, token = 0,
    asked = now, granted = 0, priority = op.priority, label = op.label }
end

-- Writes a name's key: a lock that is alone, or QUEUED.
function F.write_own(key, text)
  if idle == 0 then call('SET', F.own_of(key), text)
  else call('SET', F.own_of(key), text, 'PX', F.int(idle)) end
end

function F.write_one(it, op, row)
  local limit = it.limit and F.int(it.limit) or ''
  F.write_own(op.key, row.member .. ' ' .. F.text_of(row) .. '\n' .. limit .. '\n' .. op.name)
end

-- Notes the request in its session. This comes first: if this write is refused, the name must not
-- have a request without an owner.
function F.enroll(op)
  call('HSET', INFO, 'r' .. op.ref, op.key)
end

-- The requests of a session in a flat list: ref, key of the name, ref, key of the name, …
function F.refs_of(session)
  local refs, its = {}, call('HGETALL', F.info_of(session))
  for i = 1, #its, 2 do
    local ref = string.match(its[i], '^r(%d+)$')
    if ref then refs[#refs + 1], refs[#refs + 2] = ref, its[i + 1] end
  end
  return refs
end

function F.operation(text)
  local kind, ref, keep, key = string.match(text, '^(x)(%d+) (%d+)\n(.*)$')
  if kind then return { kind = kind, ref = ref, keep = tonumber(keep), key = key, group = '0' } end
  local op, most, weight, limit = {}, nil, nil, nil
  op.kind, op.ref, op.group, most, op.key, op.mode, weight, op.priority, op.label, limit, op.name =
    string.match(text, '^(%a)(%d+) (%d+) (%S+)\n([^\n]*)\n(%a) (%d+)\n(%S+) ([^\n]*)\n(%d*)\n(.*)$')
  op.most, op.weight, op.limit = tonumber(most), tonumber(weight), tonumber(limit)
  return op
end

function F.operations()
  local ops = {}
  for i = 8, #ARGV do ops[#ops + 1] = F.operation(ARGV[i]) end
  return ops
end

function F.field(text, name) return string.match(text, name .. ':([^\r\n]*)') end

-- Epochs are noted as digests, the last hundred of them.
function F.digest(text) return string.sub(redis.sha1hex(text), 1, 16) .. ' ' end
function F.lives()
  known.lives = known.lives or call('HGET', M, 'lives') or ''
  return known.lives
end
function F.learn(text) known.lives = string.sub(F.digest(text) .. F.lives(), 1, 1700) end

-- Only this and "F.kill" write the end of a lease, which is in two places.
function F.lease(session, till, graced)
  call('ZADD', S, F.int(till), session)
  call('HSET', F.info_of(session), 'till', F.int(till), 'graced', graced)
end

-- Expires a session for good.
function F.kill(session)
  call('ZADD', S, 0, session)
  call('HSET', F.info_of(session), 'till', '0')
end

-- Begins a new epoch after the server may have lost grants (R5): a quarantine of "wait", unless a
-- longer one lasts, so that former holders lose their locks by their own clocks first. Known leases
-- are extended to it, so that sessions that can renew live on. Tokens become greater than "last".
function F.reborn(wait, last)
  known.length = math.max(wait, from - now)
  from = now + known.length
  life = redis.sha1hex(known.run .. ' ' .. F.int(micros) .. ' ' .. F.int(last))
  last_number = math.max(last + 1000000, micros)
  F.learn(life)
  call('HSET', M, 'run', known.run, 'life', life, 'lives', known.lives, 'from', F.int(from),
    'length', F.int(known.length), 'pause', F.int(known.longest), 'renewed', F.int(now),
    'tok', F.int(last_number))
  local sessions = call('ZRANGEBYSCORE', S, '(0', '+inf')
  for _, session in ipairs(sessions) do
    local ttl = tonumber(call('HGET', F.info_of(session), 'ttl') or 0)
    F.lease(session, now + ttl, '0')
  end
end

-- For how many ms a promoted server has been primary, as far as anybody knows. The server says that
-- it was promoted, not when; so the first bucket that is opened there writes the time down. Each
-- promotion changes the replication id.
function F.reign(replication)
  if KEYS[2] then return 0 end
  local key = string.match(P, '^[^{]*') .. '{wl:}server'
  local id = known.run .. ' ' .. (F.field(replication, 'master_replid') or '')
  local its = redis.pcall('HMGET', key, 'id', 'since')
  -- The user's rights may exclude this key.
  if its.err then return 0 end
  if its[1] ~= id or not tonumber(its[2]) then
    redis.pcall('HSET', key, 'id', id, 'since', F.int(now))
    its[2] = now
  end
  if idle > 0 then redis.pcall('PEXPIRE', key, F.int(idle)) end
  return now - its[2]
end

-- The initial quarantine of a new bucket: none, unless the server was started or promoted less than
-- a lease ago.
function F.childhood(server)
  local replication = call('INFO', 'replication')
  local past = F.field(replication, 'master_replid2') or ''
  local age = math.max(0, tonumber(F.field(server, 'uptime_in_seconds') or 0) - 1) * 1000
  if known.run == '' then return pause end
  if not string.match(past, '^0*$') then age = math.min(age, math.max(0, F.reign(replication))) end
  return math.max(0, pause - age)
end

-- Compares what a client has seen. If this server does not know it, grants of another server may be
-- missing here (R5).
function F.heed(seen, token)
  local is_ahead = token > last_number
  if seen == '' or seen == life then
    if is_ahead then F.reborn(pause, token) end
    return
  end
  local is_known = string.find(F.lives(), F.digest(seen), 1, true)
  if is_known and not is_ahead then return end
  if not is_known then F.learn(seen) end
  F.reborn(pause, math.max(token, last_number))
end

local has_dead
function F.are_there_dead()
  if has_dead == nil then
    has_dead = now < known.missed or call('ZCOUNT', S, '-inf', F.int(now)) > 0
  end
  return has_dead
end

-- Sessions expired as keys or were deleted by hand, while their requests remain in names. Some of
-- these sessions may still believe that they hold locks, so a new epoch begins.
local ALMOST_FOR_EVER = 604800000
function F.miss()
  known.missed, has_dead = now + (idle > 0 and idle or ALMOST_FOR_EVER), nil
  call('HSET', M, 'missed', F.int(known.missed))
  F.reborn(pause, last_number)
end

-- If the clock jumped, or nobody could renew for half a lease, sessions that are late get another
-- lease, once.
function F.grace(renewed)
  if renewed <= now and renewed >= now - 1000 then return end
  has_dead = nil
  local sessions = call('ZRANGEBYSCORE', S, '(0', '+inf', 'WITHSCORES')
  for i = 1, #sessions, 2 do
    local session = sessions[i]
    local known = call('HMGET', F.info_of(session), 'ttl', 'graced')
    local ttl = tonumber(known[1] or 0)
    local is_late = renewed < now - ttl / 2 and known[2] ~= '1'
    if is_late or tonumber(sessions[i + 1]) > now + ttl then
      F.lease(session, now + ttl, '1')
    end
  end
  if renewed > now then call('HSET', M, 'renewed', F.int(now)) end
end

-- A session that expired here may have been renewed at a former primary whose clients come back. So
-- the quarantine that it needs counts for that time longer.
function F.longest_lapsed(text)
  local longest = 0
  for needed, till in string.gmatch(text or '', '(%d+) (%d+)') do
    if tonumber(till) > now then longest = math.max(longest, tonumber(needed)) end
  end
  return longest
end

-- "ended": the pauses of sessions that just expired.
function F.note_lapsed(ended)
  for needed, till in string.gmatch(call('HGET', M, 'lapsed') or '', '(%d+) (%d+)') do
    if tonumber(till) > now and not ended[needed] then ended[needed] = till end
  end
  local all = {}
  for needed, till in pairs(ended) do
    all[#all + 1] = needed .. ' ' .. F.int(math.min(tonumber(till), now + tonumber(needed)))
  end
  call('HSET', M, 'lapsed', table.concat(all, ' '))
end

function F.is_known(session)
  return call('ZSCORE', S, session) or call('EXISTS', F.info_of(session)) == 1
end

-- Runs before any other command: begins a new epoch if the server is another one. Returns an error
-- or nothing.
function F.awake()
  local it = call('HMGET', M, 'run', 'from', 'pause', 'tok', 'renewed', 'life', 'sessions',
    'missed', 'length', 'lapsed')
  -- These commands begin no epoch, nor does the end of a session that has nothing.
  local is_looking = command == 'query' or command == 'marked'
    or command == 'close' and not F.is_known(me)
  known.missed = tonumber(it[8] or 0)
  if not it[1] and is_looking then return end
  -- A connection always leads to the same server.
  local is_same = command == 'step' and ARGV[5] ~= '' and ARGV[5] == it[1]
  local server = is_same and '' or call('INFO', 'server')
  known.run = is_same and it[1] or F.field(server, 'run_id') or ''
  last_number = math.max(last_number, tonumber(it[4] or 0))
  known.sessions = tonumber(it[7] or 0)
  if strict > 0 then
    local good = F.field(call('INFO', 'replication'), 'min_slaves_good_slaves')
    if tonumber(good or 0) < strict then
      return redis.error_reply('NOREPLICAS not all replicas are attached')
    end
  end
  known.longest = math.max(pause, tonumber(it[3] or 0))
  pause = math.max(known.longest, F.longest_lapsed(it[10]))
  known.length = math.max(pause, tonumber(it[9] or 0))
  from, life = tonumber(it[2] or 0), it[6] or ''
  -- A clock that was set back must not lengthen the quarantine.
  local is_too_long = from > now + known.length
  if is_too_long then from = now + known.length end
  if it[1] ~= known.run then
    F.reborn((it[1] or command ~= 'open') and pause or F.childhood(server), last_number)
    return
  end
  if is_too_long then call('HSET', M, 'from', F.int(from)) end
  local renewed = tonumber(it[5] or 0)
  -- Steps leave the check of the clock to renewals, unless a session seems dead.
  if command == 'step' and renewed <= now and not F.are_there_dead() then return end
  -- Keys that belong together expire within an eighth of "idle", so some may be missing.
  if idle > 0 and known.sessions > 0 and renewed < now - idle * 3 / 4 then return F.miss() end
  F.grace(renewed)
end

function F.is_alive(session)
  local expires = call('ZSCORE', S, session)
  return expires and tonumber(expires) > now
end

function F.split(member)
  local bar = string.find(member, '|', 1, true)
  return string.sub(member, 1, bar - 1), string.sub(member, bar + 1)
end

function F.ticket(n)
  return string.format('%09d%07d', math.floor(n / 10000000), n % 10000000)
end
function F.place_of(row) return row.ticket .. '|' .. row.member end
function F.member_of(place) return string.sub(place, 18) end

function F.text_of_queued(row) return row.ticket .. ' ' .. F.text_of(row) end

-- Parses the row of a member, or of a lock that is alone (member nil); that one was granted at
-- once, so its token is its ticket.
function F.row_of(member, text)
  if not text then return nil end
  local first, mode, weight, token, asked, granted, priority, label =
    string.match(text, '^(%S+) (%a) (%d+) (%d+) (%d+) (%d+) (%-?%d+) (.*)$')
  return { member = member or first, ticket = member and first or F.ticket(token), mode = mode,
    weight = tonumber(weight), token = tonumber(token), asked = tonumber(asked),
    granted = tonumber(granted), priority = priority, label = label, is_queued = true }
end

function F.read_row(key, member)
  return F.row_of(member, call('HGET', F.rows_of(key), member))
end

-- Reads a name's key: the row, limit and name of a lock that is alone; nil if the name is free;
-- QUEUED if there is a queue.
function F.read_own(key)
  local own = call('GET', F.own_of(key))
  if not own or own == QUEUED then return own end
  local text, limit, name = string.match(own, '^(.*)\n(%d*)\n(.*)$')
  local row = F.row_of(nil, text)
  if not row then error('a key of a name holds something else: ' .. F.own_of(key), 0) end
  return row, tonumber(limit), name
end

-- The row of a session's request.
function F.find_row(key, member)
  local own = F.read_own(key)
  if own == QUEUED then return F.read_row(key, member) end
  return own and own.member == member and own or nil
end

-- Writes the sums of a name's held locks, and more fields and values.
function F.write(it, ...)
  call('HSET', F.rows_of(it.key), 'held', it.held, 'units', F.int(it.units),
    'alone', it.alone and 1 or 0, ...)
end

-- Frees a name.
function F.forget(it)
  call('DEL', F.own_of(it.key), F.rows_of(it.key), F.queue_of(it.key))
  it.one, it.limit = nil, nil
end

-- Rebuilds a queue that somebody deleted by hand from its rows.
function F.mend(it)
  local rows, fields = {}, call('HGETALL', F.rows_of(it.key))
  for i = 1, #fields, 2 do
    local is_row = string.find(fields[i], '|', 1, true)
    if is_row then rows[#rows + 1] = F.row_of(fields[i], fields[i + 1]) end
  end
  it.count, it.held, it.units, it.alone = #rows, 0, 0, false
  if it.count == 0 then return F.forget(it) end
  for _, row in ipairs(rows) do
    local rank = row.token > 0 and -math.huge or 0 - row.priority
    call('ZADD', F.queue_of(it.key), F.int(rank), F.place_of(row))
    if row.token > 0 then count_held(it, row) end
  end
  F.keep_name(it.key)
  F.write(it)
end

-- Removes a lock or request from a name and returns its row. "place": its member of the queue, if
-- known.
function F.take_out(it, member, place)
  local ref, session = F.split(member)
  call('HDEL', F.info_of(session), 'r' .. ref)
  if it.one then return F.take_out_one(it, member) end
  -- Somebody may have deleted the key with QUEUED by hand.
  if it.count == 0 then return F.forget(it) end
  local row = F.read_row(it.key, member)
  place = place or row and F.place_of(row)
  if place then it.count = it.count - call('ZREM', F.queue_of(it.key), place) end
  local was_held = row and row.token > 0
  if was_held then it.held, it.units, it.alone = it.held - 1, it.units - row.weight, false end
  if it.count == 0 then
    F.forget(it)
  elseif row then
    call('HDEL', F.rows_of(it.key), member)
    if was_held then F.write(it) end
  end
  return row
end

function F.take_out_one(it, member)
  local one = it.one
  if one.member ~= member then return nil end
  F.forget(it)
  it.count, it.held, it.units, it.alone = 0, 0, 0, false
  return one
end

-- The members of a queue from first to last.
function F.places(it, first, last)
  if it.one then return { F.place_of(it.one) } end
  return call('ZRANGE', F.queue_of(it.key), first, last)
end

-- Reaps requests of expired sessions among the first 100. Returns whether there were any.
function F.bury(it)
  if it.count == 0 then return false end
  if not F.are_there_dead() then
    local _, first = F.split(F.member_of(F.places(it, 0, 0)[1]))
    -- If a live holder is not in the list of sessions, somebody deleted the list and its count.
    if first == me or call('ZSCORE', S, first) then return false end
    F.miss()
  end
  local found, is_alive = false, {}
  for _, place in ipairs(F.places(it, 0, 99)) do
    local member = F.member_of(place)
    local _, session = F.split(member)
    if is_alive[session] == nil then is_alive[session] = F.is_alive(session) or false end
    if not is_alive[session] then
      if call('ZSCORE', S, session) then F.kill(session) end
      F.take_out(it, member, place)
      found = true
    end
  end
  return found
end

-- The row of the first waiter, or nil.
function F.first_waiting(it)
  while it.held < it.count do
    local first = call('ZRANGE', F.queue_of(it.key), it.held, it.held, 'WITHSCORES')
    local member = F.member_of(first[1])
    local row = F.read_row(it.key, member)
    if row then
      row.rank = tonumber(first[2])
      return row
    end
    -- Somebody deleted the rows by hand.
    F.take_out(it, member, first[1])
  end
end

-- Reads a name after its expired sessions are reaped and the queue is processed.
function F.read_name(key)
  local it = { key = key, held = 0, units = 0, count = 0, alone = false }
  local own, limit = F.read_own(key)
  if own == QUEUED then
    local its = call('HMGET', F.rows_of(key), 'held', 'units', 'alone', 'limit')
    it.held, it.units = tonumber(its[1] or 0), tonumber(its[2] or 0)
    it.alone, it.limit = its[3] == '1', tonumber(its[4] or nil)
    it.count = call('ZCARD', F.queue_of(key))
    if it.count < it.held or it.count == 0 then F.mend(it) end
  elseif own then
    it.one, it.count, it.limit = own, 1, limit
    count_held(it, own)
  end
  local has_changed = false
  while F.bury(it) do has_changed = true end
  if has_changed then process_the_lock_request_queue(it) end
  return it
end

-- Gives a name a queue, whose first member is the lock that was alone.
function F.unfold(it)
  local one = it.one
  it.one = nil
  F.write_own(it.key, QUEUED)
  -- Somebody may have deleted the name's key and left these.
  call('DEL', F.queue_of(it.key), F.rows_of(it.key))
  if not one then return end
  call('ZADD', F.queue_of(it.key), 0, F.place_of(one))
  F.write(it, one.member, F.text_of_queued(one))
end

-- Moves the holders ahead of every waiter, so that a waiter of "rank" cannot pass them.
function F.move_holders(it, rank)
  if it.held == 0 then return end
  local places = call('ZRANGE', F.queue_of(it.key), 0, it.held - 1, 'WITHSCORES')
  for i = 1, #places, 2 do
    if tonumber(places[i + 1]) > rank then
      call('ZADD', F.queue_of(it.key), F.int(-math.huge), places[i])
    end
  end
end

function F.insert(it, op, row, ticket)
  F.enroll(op)
  if it.count == 0 and row.token > 0 then
    F.write_one(it, op, row)
    return
  end
  if it.one or it.count == 0 then F.unfold(it) end
  local rank = row.token > 0 and math.min(row.rank, 0) or row.rank
  if row.token == 0 and rank < 0 then F.move_holders(it, rank) end
  row.ticket, row.is_queued = F.ticket(ticket), true
  call('ZADD', F.queue_of(op.key), F.int(rank), F.place_of(row))
  it.count = it.count + 1
  local text = F.text_of_queued(row)
  if it.limit then F.write(it, row.member, text, 'name', op.name, 'limit', F.int(it.limit))
  else F.write(it, row.member, text, 'name', op.name) end
  if idle == 0 then return end
  F.keep_name(op.key)
end

-- Section 4.1 "request a lock": https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock
function F.request(op, waits)
  local it = F.read_name(op.key)
  if op.mode == 's' then
    if it.limit and it.limit ~= op.limit then return F.int(-10 - it.limit) end
    it.limit = op.limit
  end
  return F.ask(it, op, waits)
end

function F.ask(it, op, waits)
  local row = F.new_row(op)
  -- A negated 0 would be written as -0.
  row.rank = op.kind == 't' and -math.huge or 0 - op.priority
  process_the_lock_request_queue(it, row)
  if row.passes then return '-9' end
  if row.token == 0 then
    if not waits then return '-1' end
    local is_limited = op.kind == 'r' and op.most >= 0
    if is_limited and it.count - it.held >= op.most then return '-3' end
  end
  F.insert(it, op, row, row.token > 0 and row.token or next_number())
  return F.int(row.token)
end

-- Takes a request out of a name and notifies its session: of the thief, or '' if it passes.
function F.take_away(it, member, place, thief)
  F.take_out(it, member, place)
  local ref, session = F.split(member)
  -- An error here (another type at that key) must not stop the step halfway.
  redis.pcall('HSET', F.thefts_of(session), ref, thief)
  F.keep(F.thefts_of(session))
  F.tell(session, 's ' .. ref .. ' ' .. thief)
end

function F.pass(it, row, mine)
  local limit = it.limit
  F.take_away(it, row.member, F.place_of(row), '')
  -- Taking out the last request clears the limit, which the entering request has just set.
  if mine then it.limit = limit end
end

function F.steal(op)
  local it = F.read_name(op.key)
  local limit, thief = it.limit, call('HGET', INFO, 'client')
  for _, place in ipairs(it.held > 0 and F.places(it, 0, it.held - 1) or {}) do
    local member = F.member_of(place)
    F.take_away(it, member, place, thief)
  end
  it.limit = limit
  if it.count == 0 then return F.ask(it, op, true) end
  -- The thief goes ahead of all waiters, even of other thieves.
  local row = F.new_row(op)
  row.rank = -math.huge
  local thief_ahead = call('ZRANGEBYSCORE', F.queue_of(op.key), '-inf', '-inf', 'LIMIT', 0, 1)[1]
  local ticket = thief_ahead and tonumber(string.match(thief_ahead, '^%d+')) - 1
  F.insert(it, op, row, ticket or next_number())
  process_the_lock_request_queue(it, row)
  return F.int(row.token)
end

-- Marks a name, and drops up to two expired marks, so that they do not accumulate.
function F.mark(key, member, milliseconds)
  call('ZADD', MARKS, F.int(now + milliseconds), key)
  call('HSET', MARKERS, key, member)
  for _, over in ipairs(call('ZRANGEBYSCORE', MARKS, '-inf', F.int(now), 'LIMIT', 0, 2)) do
    call('ZREM', MARKS, over)
    call('HDEL', MARKERS, over)
  end
  for _, all in ipairs({ MARKS, MARKERS }) do
    local till = call('ZREVRANGE', MARKS, 0, 0, 'WITHSCORES')[2]
    if idle == 0 then call('PERSIST', all)
    elseif till then call('PEXPIREAT', all, F.int(math.ceil(tonumber(till)) + 1000)) end
  end
end

-- Section 4.2 "release the lock" and 4.3 "abort the request", which do the same here:
-- https://www.w3.org/TR/2023/WD-web-locks-20230105/#release-the-lock
-- "milliseconds": how long to mark the name; 0 for no mark.
function F.finish(ref, key, milliseconds)
  key = key ~= '' and key or call('HGET', INFO, 'r' .. ref)
  if not key then return '-4' end
  local member, code = ref .. '|' .. me, '-4'
  local it = F.read_name(key)
  local row = F.take_out(it, member)
  if milliseconds > 0 then
    if row and row.token > 0 then F.mark(key, member, milliseconds)
    elseif call('HGET', MARKERS, key) ~= member then code = '-6' end
  end
  process_the_lock_request_queue(it)
  return code
end

-- Why the caller's session cannot act; nil if it can.
function F.refusal()
  if not F.is_alive(me) then return { '-2' } end
  local it = call('HMGET', INFO, 'conn', 'ttl', 'step', 'kept')
  -- Somebody deleted the hash, so nobody knows what the session had.
  if not it[2] then return { '-2' } end
  if it[1] ~= number then return { '-5' } end
  my = { ttl = tonumber(it[2]), step = it[3], kept = tonumber(it[4] or 0) }
end

-- The reply to a step that is not the next one (R1); nil if it may be repeated.
function F.answer_of_old(repeats)
  if tonumber(ARGV[6]) > tonumber(my.step or 0) then return { '-8' } end
  if repeats then return nil end
  local text = call('HGET', INFO, tostring(ARGV[6] % WINDOW)) or ''
  if string.match(text, '^%d+') ~= ARGV[6] then return { '-5' } end
  local codes = {}
  for code in string.gmatch(text, '\n([^\n]+)') do codes[#codes + 1] = code end
  return codes
end

function F.is_refused(code) return (tonumber(code) or -1) < 0 end

function F.do_one(op)
  if op.kind == 'x' then return F.finish(op.ref, op.key, op.keep) end
  if op.kind == 't' then return F.steal(op) end
  return F.request(op, op.kind == 'r')
end

-- An error (somebody wrote to a name's keys) comes before the operation writes anything. The first
-- operation raises it, so that the step is not done; a later one returns it.
function F.try(op, is_first)
  local is_done, code = pcall(F.do_one, op)
  if is_done then return code end
  if is_first then error(code, 0) end
  if op.kind == 'x' then return op.keep > 0 and '-6' or '-4' end
  local text = type(code) == 'table' and code.err or tostring(code)
  return 'e' .. string.gsub(text, '\n', ' ')
end

-- Does the operations that "codes" has no replies for yet.
function F.do_all(ops, codes)
  local first = 1
  for i = #codes + 1, #ops do
    local op, last = ops[i], ops[i - 1]
    local is_member = last and op.group ~= '0' and op.group == last.group
    if not is_member then first = i end
    if op.kind == 'i' and is_member and F.is_refused(codes[i - 1]) then
      codes[i] = '-1'
    else
      codes[i] = F.try(op, i == 1)
      if op.kind == 'i' and F.is_refused(codes[i]) then
        -- A group gets all its locks or none, so the ones just granted are released.
        for j = first, i - 1 do
          F.finish(ops[j].ref, ops[j].key, 0)
          codes[j] = '-1'
        end
      end
    end
  end
end

-- Continues a step behind what the fast path has done, whose replies are in "codes".
function F.do_the_rest()
  local is_begun = #codes > 0
  local failure = F.awake()
  if failure then return failure end
  local refused = F.refusal()
  if refused then return refused end
  local ops = F.operations()
  repeats = true
  for _, op in ipairs(ops) do repeats = repeats and op.kind == 'x' and op.keep == 0 end
  local is_new = is_begun or is_next
  local answer = not is_new and F.answer_of_old(repeats)
  if answer then return answer end
  F.do_all(ops, codes)
  is_done = is_new
  return codes
end

-- These functions are of no use to steps.
if command ~= 'step' then

-- Why the bucket is not the caller's, or nil.
function F.otherness()
  local it = call('HMGET', M, 'version', 'shards')
  if it[1] and it[1] ~= ARGV[10] then return { 'version', it[1] } end
  if it[2] and it[2] ~= ARGV[11] then return { 'shards', it[2] } end
end

-- The link of a session's steps, if they may take the fast path: then no replicas have to be
-- counted.
function F.link_of(connection)
  return strict == 0 and connection .. string.match(link, ' .*') or ''
end

-- Counts the sessions after "change" of them came or went. Returns whether others are missing,
-- because they expired as keys or were deleted by hand.
function F.count(change)
  local there = call('ZCARD', S)
  call('HSET', M, 'sessions', there)
  return there < (known.sessions or 0) + change
end

-- Shortens later quarantines to what live sessions need. The current one may be for unknown
-- sessions and stays.
function F.shorten()
  if now < from then return end
  if known.length > pause then call('HDEL', M, 'length') end
  local longest, first, some = 0, 0, nil
  repeat
    some = call('ZREVRANGE', S, first, first + 99)
    for _, session in ipairs(some) do
      local its = tonumber(call('HGET', F.info_of(session), 'pause') or known.longest)
      longest = math.max(longest, its)
      if longest >= known.longest then return end
    end
    first = first + 100
  until #some < 100
  if longest > 0 then call('HSET', M, 'pause', F.int(longest)) else call('HDEL', M, 'pause') end
end

function F.open()
  local ttl, info, client, version, shards =
    tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[10], ARGV[11]
  if F.count(0) then F.miss() end
  F.heed(ARGV[5], tonumber(ARGV[6]))
  F.lease(me, now + ttl, '0')
  call('HSET', INFO, 'conn', number, 'link', F.link_of(number), 'ttl', F.int(ttl),
    'pause', string.match(link, ' (%d+)'), 'info', info, 'client', client,
    'kept', idle > 0 and F.int(now) or '0')
  call('HSET', M, 'version', version, 'shards', shards, 'pause', F.int(known.longest),
    'renewed', F.int(now))
  F.count(1)
  F.shorten()
  F.keep(S)
  F.keep(INFO)
  -- This PUBLISH may raise an error, so that a user without the right learns of it.
  call('PUBLISH', P .. ':c:' .. me, 'e 0')
  return { 'open', life, F.int(math.max(from - now, 0)) }
end

-- Sets the expiry of all the session's keys again, if that was long ago.
function F.keep_all(refs)
  local age = now - my.kept
  if idle == 0 and my.kept == 0 then return end
  if idle > 0 and my.kept > 0 and age >= 0 and age < idle / 8 then return end
  for _, key in ipairs({ S, INFO, F.thefts_of(me) }) do F.keep(key) end
  for i = 2, #refs, 2 do F.keep_name(refs[i]) end
  call('HSET', INFO, 'kept', idle > 0 and F.int(now) or '0')
end

function F.renew()
  F.heed(ARGV[5], tonumber(ARGV[6]))
  local refused = F.refusal()
  if refused then return refused end
  F.lease(me, now + my.ttl, '0')
  call('HSET', M, 'renewed', F.int(now))
  F.tell(me, ARGV[7])
  local next_expiry = '-1'
  local sessions = call('ZRANGE', S, 0, 1, 'WITHSCORES')
  for i = #sessions - 1, 1, -2 do
    if sessions[i] ~= me then next_expiry = F.int(math.max(tonumber(sessions[i + 1]) - now, 0)) end
  end
  local reply = { '0', next_expiry, F.int(math.max(from - now, 0)), life,
    my.step or '0' }
  local refs = F.refs_of(me)
  for i = 1, #refs, 2 do
    -- If somebody overwrote the keys of a name, only its own requests are lost.
    local is_read, row = pcall(F.find_row, refs[i + 1], refs[i] .. '|' .. me)
    if is_read and row then
      reply[#reply + 1] = refs[i]
      reply[#reply + 1] = F.int(row.token)
    end
  end
  for i = 8, #ARGV do call('HDEL', F.thefts_of(me), ARGV[i]) end
  local thefts = call('HGETALL', F.thefts_of(me))
  for i = 1, #thefts, 2 do
    reply[#reply + 1] = thefts[i]
    reply[#reply + 1] = 's' .. thefts[i + 1]
  end
  F.keep_all(refs)
  return reply
end

-- Reads a name; false if somebody overwrote its keys, which must not stop others.
function F.try_to_read(key)
  local is_read, it = pcall(F.read_name, key)
  return is_read and it
end

-- Ends sessions, at most 100 requests a call, and grants what becomes free. Returns whether there
-- is more to do.
function F.end_sessions(sessions)
  local touched, left, is_missing, gone, lapsed = {}, 100, false, 0, {}
  for _, session in ipairs(sessions) do
    is_missing = is_missing or call('HEXISTS', F.info_of(session), 'ttl') == 0
    F.kill(session)
    has_dead = true
    local refs = F.refs_of(session)
    local most = math.min(#refs, left * 2)
    for i = 1, most, 2 do
      local key = refs[i + 1]
      if touched[key] == nil then touched[key] = F.try_to_read(key) end
      if touched[key] then F.take_out(touched[key], refs[i] .. '|' .. session)
      else call('HDEL', F.info_of(session), 'r' .. refs[i]) end
      left = left - 1
    end
    if most == #refs then
      gone = gone + call('ZREM', S, session)
      local needed = call('HGET', F.info_of(session), 'pause')
      if needed then lapsed[needed] = F.int(now + needed) end
      call('DEL', F.info_of(session), F.thefts_of(session))
    end
  end
  if command == 'sweep' and next(lapsed) then F.note_lapsed(lapsed) end
  if gone > 0 then is_missing = F.count(-gone) or is_missing end
  -- Nobody knows what the missing sessions had.
  if is_missing then F.miss() elseif gone > 0 and known.length then F.shorten() end
  for _, it in pairs(touched) do if it then process_the_lock_request_queue(it) end end
  return left == 0 and '1' or '0'
end

-- Reaps expired sessions. After a quarantine it also processes the caller's names.
function F.sweep()
  if now >= from and now < from + 2 * known.length then
    local refs = F.refs_of(me)
    for i = 2, #refs, 2 do
      local it = F.try_to_read(refs[i])
      if it then process_the_lock_request_queue(it) end
    end
  end
  local dead = call('ZRANGEBYSCORE', S, '-inf', F.int(now), 'LIMIT', 0, 10)
  local more = F.end_sessions(dead)
  return { (more == '1' or #dead == 10) and '1' or '0' }
end

function F.close()
  if not F.is_known(me) then return { '0' } end
  return { F.end_sessions({ me }) }
end

function F.hello()
  F.heed(ARGV[5], tonumber(ARGV[6]))
  if not F.is_alive(me) or call('HEXISTS', INFO, 'ttl') == 0 then return { '-2' } end
  local connection = F.int(call('HINCRBY', INFO, 'conn', 1))
  call('HSET', INFO, 'link', F.link_of(connection), 'pause', string.match(link, ' (%d+)'))
  call('HSET', M, 'pause', F.int(known.longest))
  return { connection }
end

-- The keys of all names in use.
function F.names()
  local seen, keys = {}, {}
  for _, session in ipairs(call('ZRANGEBYSCORE', S, '(' .. F.int(now), '+inf')) do
    local refs = F.refs_of(session)
    for i = 2, #refs, 2 do
      if not seen[refs[i]] then keys[#keys + 1] = refs[i] end
      seen[refs[i]] = true
    end
  end
  return keys
end

-- The members of a name's queue (or its holders) or its single row, the name and the limit.
function F.all_of(key, which)
  local own, limit, name = F.read_own(key)
  if own ~= QUEUED then return { own or nil }, name, limit end
  local its = call('HMGET', F.rows_of(key), 'name', 'limit', 'held')
  local held = tonumber(its[3] or 0)
  if which == 'held' and held == 0 then return {} end
  return call('ZRANGE', F.queue_of(key), 0, which == 'held' and held - 1 or -1), its[1], its[2]
end

-- Section 4.5 "snapshot the lock state":
-- https://www.w3.org/TR/2023/WD-web-locks-20230105/#snapshot-the-lock-state
function F.query()
  local reply, infos = { F.int(now) }, {}
  for _, key in ipairs(ARGV[5] ~= '' and { ARGV[5] } or F.names()) do
    local is_read, all, name, limit = pcall(F.all_of, key, ARGV[6])
    for _, one in ipairs(is_read and all or {}) do
      local member = one.member or F.member_of(one)
      local ref, session = F.split(member)
      if infos[session] == nil then
        infos[session] = F.is_alive(session) and call('HGET', F.info_of(session), 'info') or false
      end
      local row = infos[session] and (one.member and one or F.read_row(key, member))
      if row then
        local n = #reply
        reply[n + 1], reply[n + 2], reply[n + 3] = ref, name, limit or '0'
        reply[n + 4], reply[n + 5] = infos[session], F.text_of(row)
      end
    end
  end
  return reply
end

function F.marked()
  local till = call('ZSCORE', MARKS, ARGV[5])
  return { till and tonumber(till) > now and '1' or '0' }
end

end

if command == 'step' then
  reply = F.do_the_rest()
else
  reply = command == 'open' and F.otherness() or F.awake() or F[command]()
end
if is_counted then last_text = F.int(last_number) end

end

-- Records the step, with its replies unless it may be repeated.
if is_done then
  local n, count = ARGV[6], #fields
  fields[count + 1], fields[count + 2] = 'step', n
  if not repeats then
    -- This is the digit of the step's slot.
    fields[count + 3] = string.sub('0123', n % WINDOW + 1, n % WINDOW + 1)
    fields[count + 4] = n .. '\n' .. (codes[2] and table.concat(codes, '\n') or codes[1])
  end
  call('HSET', unpack(fields))
end
if last_text then call('HSET', M, 'tok', last_text) end
-- Messages come last, because a missing right to publish must not stop a step halfway.
if news then
  for _, what in ipairs(news) do redis.pcall('PUBLISH', what[1], what[2]) end
end
-- An array of one would take longer to make.
return command == 'step' and #reply == 1 and reply[1] or reply
`;
