'use strict';

/**
 * The Lua script of web-locks/redis. It is a module, because a bundle would lack a file that is
 * read at run time. So it contains no backtick, and no dollar sign before a brace.
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
-- The last ticket or token, also as text if this call gave it.
local last_number, last_text = 0, nil

-- The fast path of a step. It handles the usual operations with as few commands as possible:
-- requests of free names, and ends of locks that nobody waits for, while server and session are as
-- before. At any other operation, the slow path continues.

-- "codes" are the replies of a step. "is_done": the step is complete and will be recorded.
-- "is_repeatable": executing it again gives the same replies, as for ends without marks. A table
-- that is made with spare capacity need not grow; growing would take half as long as a command.
local codes, is_done, is_repeatable = { nil }, false, true
-- Whether the step directly follows the last one that was executed.
local is_next = false
-- What to write to the session's hash: its key, then fields and values.
local fields = { INFO, nil, nil, nil, nil, nil, nil }

if command == 'step' then
  local its = call('HMGET', INFO, 'link', 'step', 'till')
  local run, i, last, has_only_ends = ARGV[5], 8, #ARGV, true
  is_next = ARGV[6] - (its[2] or 0) > 0 and (ARGV[7] == '0' or ARGV[7] == its[2])
  -- Whether "F.check_epoch" and "F.check_session" would have nothing to do.
  local is_plain = run ~= '' and its[1] == link and is_next
  -- A step that contains only ends needs neither a live session nor a known server, because an end
  -- is always correct. With an empty run_id the caller asks to check whether the session is dead.
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
      -- The pattern does not match members of groups, or requests that pass.
      local ref, key, mode, rest =
        string.match(op, '^[ir](%d+) 0 %S+\n([^\n]+)\n([xs] %d+)\n(.*)$')
      if not ref then break end
      -- Section 4.1 "request a lock" for a free name: SET NX grants it, so
      -- process_the_lock_request_queue below is not needed.
      -- https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock
      local token, n = last_number + 1, #fields
      -- '%d' has 32 bits on some servers, and '%.0f' takes as long as a command, so the number is
      -- formatted in two halves.
      local text = string.format('%d%07d', math.floor(token / 10000000), token % 10000000)
      -- This is "now" as text; concatenating is faster than formatting.
      at = at or time[1] .. string.sub('00000' .. time[2], -6, -4)
      -- This is the format of "F.write_single".
      local own, one = P .. ':n:' .. key, ref .. '|' .. me .. ' ' .. mode .. ' ' .. text .. ' '
        .. at .. ' ' .. at .. ' ' .. rest
      local set = idle == '0' and redis.pcall('SET', own, one, 'NX')
        or idle ~= '0' and redis.pcall('SET', own, one, 'NX', 'PX', idle)
      -- Either the name is in use, or Redis refuses writes, and the slow path will find out why.
      if not set or set.err then break end
      last_number, last_text, is_repeatable = token, text, false
      fields[n + 1], fields[n + 2], codes[#codes + 1] = 'r' .. ref, key, text
    end
    i = i + 1
  end
  is_done = is_plain and i > last
  -- If a request and its end are both in this step, the request must be written before its end.
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
-- F holds all functions except the next two, since Lua limits the number of locals. Both names are
-- declared here, because Lua finds late declarations faster when it creates closures.
local call, F = call, {}

local function next_number()
  last_number, is_counted = last_number + 1, true
  return last_number
end

-- Adds a row to the sums over the holders.
local function count_holder(it, row)
  it.held, it.units, it.alone = it.held + 1, it.units + row.weight, row.mode == 'x'
end

-- Section 4.4 "process the lock request queue": grants waiters in their order until one does not
-- fit, and notifies them. The fast path above also grants free names.
-- https://www.w3.org/TR/2023/WD-web-locks-20230105/#process-the-lock-request-queue
-- "mine" is the caller's request, which is not notified. If it is not in the queue yet, it is
-- treated according to its rank, and the caller must write it.
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
      count_holder(it, row)
    end
    if row == mine and not row.is_queued then return end
    if row.passes then F.pass(it, row, mine) else F.record_grant(it, row, mine) end
  end
end

-- Writes the grant of a queued row.
function F.record_grant(it, row, mine)
  if row.rank > 0 then call('ZADD', F.queue_key(it.key), 0, F.entry_of(row)) end
  F.write_sums(it, row.member, F.queued_row_text(row))
  if row ~= mine then
    local ref, session = F.split_member(row.member)
    F.add_message(session, 'g ' .. ref .. ' ' .. F.int(row.token))
  end
end

-- A name's key has this value if the name has a queue.
local QUEUED = 'q'

-- The epoch, the known fields of the bucket ("run", "epochs", "sessions", "length"), and the
-- caller's session.
local epoch, known, my = '', {}, nil

local S = P .. ':s'
-- Formats a number in two halves as above. Negative, fractional and infinite numbers are rare, and
-- are formatted as a whole.
function F.int(n)
  if n < 0 or n % 1 ~= 0 then return string.format('%.0f', n) end
  if n < 10000000 then return string.format('%d', n) end
  return string.format('%d%07d', math.floor(n / 10000000), n % 10000000)
end

local MARKS, MARKERS = P .. ':k', P .. ':w'
function F.info_key(session) return P .. ':i:' .. session end
function F.thefts_key(session) return P .. ':t:' .. session end
function F.queue_key(key) return P .. ':q:' .. key end
function F.name_key(key) return P .. ':n:' .. key end
function F.rows_key(key) return P .. ':r:' .. key end

function F.add_message(session, what)
  messages = messages or {}
  messages[#messages + 1] = { P .. ':c:' .. session, what }
end

-- Makes a key expire long after all leases. On a server that evicts keys with an expiry, it never
-- expires.
function F.expire_key_later(key)
  if idle > 0 then call('PEXPIRE', key, F.int(idle)) else call('PERSIST', key) end
end

-- Makes the keys of a name expire together, because a name counts as free if its first key is
-- missing.
function F.expire_name_later(key)
  local keys = { F.name_key(key), F.rows_key(key), F.queue_key(key) }
  for _, its in ipairs(keys) do F.expire_key_later(its) end
end

function F.row_text(row)
  return table.concat({ row.mode, F.int(row.weight), F.int(row.token), F.int(row.asked),
    F.int(row.granted), row.priority, row.label }, ' ')
end

function F.new_row(op)
  return { member = op.ref .. '|' .. me, mode = op.mode, weight = op.weight, token = 0,
    asked = now, granted = 0, priority = op.priority, label = op.label }
end

-- Writes a name's key: a lock that is alone, or QUEUED.
function F.write_name_key(key, text)
  if idle == 0 then call('SET', F.name_key(key), text)
  else call('SET', F.name_key(key), text, 'PX', F.int(idle)) end
end

function F.write_single(it, op, row)
  local limit = it.limit and F.int(it.limit) or ''
  F.write_name_key(op.key, row.member .. ' ' .. F.row_text(row) .. '\n' .. limit .. '\n' .. op.name)
end

-- The session's entry is written before the name's: if this write is refused, no name may have a
-- request without an owner.
function F.add_to_session(op)
  call('HSET', INFO, 'r' .. op.ref, op.key)
end

-- The requests of a session in a flat list: ref, key of the name, ref, key of the name, …
function F.refs_of(session)
  local refs, its = {}, call('HGETALL', F.info_key(session))
  for i = 1, #its, 2 do
    local ref = string.match(its[i], '^r(%d+)$')
    if ref then refs[#refs + 1], refs[#refs + 2] = ref, its[i + 1] end
  end
  return refs
end

function F.parse_operation(text)
  local kind, ref, keep, key = string.match(text, '^(x)(%d+) (%d+)\n(.*)$')
  if kind then return { kind = kind, ref = ref, keep = tonumber(keep), key = key, group = '0' } end
  local op, most, weight, limit = {}, nil, nil, nil
  op.kind, op.ref, op.group, most, op.key, op.mode, weight, op.priority, op.label, limit, op.name =
    string.match(text, '^(%a)(%d+) (%d+) (%S+)\n([^\n]*)\n(%a) (%d+)\n(%S+) ([^\n]*)\n(%d*)\n(.*)$')
  op.most, op.weight, op.limit = tonumber(most), tonumber(weight), tonumber(limit)
  return op
end

function F.parse_operations()
  local ops = {}
  for i = 8, #ARGV do ops[#ops + 1] = F.parse_operation(ARGV[i]) end
  return ops
end

function F.field(text, name) return string.match(text, name .. ':([^\r\n]*)') end

-- The last hundred epochs are kept as digests.
function F.digest(text) return string.sub(redis.sha1hex(text), 1, 16) .. ' ' end
function F.epochs()
  known.epochs = known.epochs or call('HGET', M, 'lives') or ''
  return known.epochs
end
function F.add_epoch(text) known.epochs = string.sub(F.digest(text) .. F.epochs(), 1, 1700) end

-- Sets the end of a lease. It is stored in two keys, which only this function and "F.expire" write.
function F.set_lease(session, till, graced)
  call('ZADD', S, F.int(till), session)
  call('HSET', F.info_key(session), 'till', F.int(till), 'graced', graced)
end

-- Expires a session for good.
function F.expire(session)
  call('ZADD', S, 0, session)
  call('HSET', F.info_key(session), 'till', '0')
end

-- Begins a new epoch after the server may have lost grants (R5). Nothing is granted for "wait"
-- milliseconds, or until a longer quarantine ends, so that former holders lose their locks by their
-- own clocks first. Known leases are extended, so that sessions that can renew survive. Tokens
-- become greater than "last".
function F.begin_epoch(wait, last)
  known.length = math.max(wait, from - now)
  from = now + known.length
  epoch = redis.sha1hex(known.run .. ' ' .. F.int(micros) .. ' ' .. F.int(last))
  last_number = math.max(last + 1000000, micros)
  F.add_epoch(epoch)
  call('HSET', M, 'run', known.run, 'life', epoch, 'lives', known.epochs, 'from', F.int(from),
    'length', F.int(known.length), 'pause', F.int(known.longest), 'renewed', F.int(now),
    'tok', F.int(last_number))
  local sessions = call('ZRANGEBYSCORE', S, '(0', '+inf')
  for _, session in ipairs(sessions) do
    local ttl = tonumber(call('HGET', F.info_key(session), 'ttl') or 0)
    F.set_lease(session, now + ttl, '0')
  end
end

-- How many milliseconds a promoted server has been primary, as far as is known. The server reports
-- that it was promoted, but not when, so the first bucket that is opened there records the time.
-- Each promotion changes the replication id.
function F.time_as_primary(replication)
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

-- The length of a new bucket's quarantine: 0, unless the server was started or promoted less than a
-- lease ago.
function F.first_quarantine(server)
  local replication = call('INFO', 'replication')
  local past = F.field(replication, 'master_replid2') or ''
  local age = math.max(0, tonumber(F.field(server, 'uptime_in_seconds') or 0) - 1) * 1000
  if known.run == '' then return pause end
  if not string.match(past, '^0*$') then
    age = math.min(age, math.max(0, F.time_as_primary(replication)))
  end
  return math.max(0, pause - age)
end

-- Begins a new epoch if a client has seen an epoch or token that this server does not know: grants
-- of another server may be missing here (R5).
function F.compare_seen(seen, token)
  local is_ahead = token > last_number
  if seen == '' or seen == epoch then
    if is_ahead then F.begin_epoch(pause, token) end
    return
  end
  local is_known = string.find(F.epochs(), F.digest(seen), 1, true)
  if is_known and not is_ahead then return end
  if not is_known then F.add_epoch(seen) end
  F.begin_epoch(pause, math.max(token, last_number))
end

local has_expired
function F.are_some_expired()
  if has_expired == nil then
    has_expired = now < known.missed or call('ZCOUNT', S, '-inf', F.int(now)) > 0
  end
  return has_expired
end

-- Handles sessions whose keys expired or were deleted by hand while names still have their
-- requests. A session like this may still believe that it holds locks, so a new epoch must begin.
local ALMOST_FOR_EVER = 604800000
function F.handle_missing_sessions()
  known.missed, has_expired = now + (idle > 0 and idle or ALMOST_FOR_EVER), nil
  call('HSET', M, 'missed', F.int(known.missed))
  F.begin_epoch(pause, last_number)
end

-- If the clock jumped, or nobody could renew for half a lease, late sessions get another lease,
-- once.
function F.extend_late_leases(renewed)
  if renewed <= now and renewed >= now - 1000 then return end
  has_expired = nil
  local sessions = call('ZRANGEBYSCORE', S, '(0', '+inf', 'WITHSCORES')
  for i = 1, #sessions, 2 do
    local session = sessions[i]
    local known = call('HMGET', F.info_key(session), 'ttl', 'graced')
    local ttl = tonumber(known[1] or 0)
    local is_late = renewed < now - ttl / 2 and known[2] ~= '1'
    if is_late or tonumber(sessions[i + 1]) > now + ttl then
      F.set_lease(session, now + ttl, '1')
    end
  end
  if renewed > now then call('HSET', M, 'renewed', F.int(now)) end
end

-- The longest quarantine that expired sessions need. A session that expired here may have been
-- renewed at a former primary whose clients come back, so the quarantine that it needs counts for
-- this additional time.
function F.longest_lapsed(text)
  local longest = 0
  for needed, till in string.gmatch(text or '', '(%d+) (%d+)') do
    if tonumber(till) > now then longest = math.max(longest, tonumber(needed)) end
  end
  return longest
end

-- Records the quarantines that expired sessions need. "ended": the pauses of sessions that just
-- expired.
function F.record_lapsed(ended)
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
  return call('ZSCORE', S, session) or call('EXISTS', F.info_key(session)) == 1
end

-- Must run before any other command. Begins a new epoch if the server is another one. Returns an
-- error or nothing.
function F.check_epoch()
  local it = call('HMGET', M, 'run', 'from', 'pause', 'tok', 'renewed', 'life', 'sessions',
    'missed', 'length', 'lapsed')
  -- These commands do not begin a new epoch, and neither does the end of a session that has
  -- nothing.
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
  from, epoch = tonumber(it[2] or 0), it[6] or ''
  -- A clock that was set back must not lengthen the quarantine.
  local is_too_long = from > now + known.length
  if is_too_long then from = now + known.length end
  if it[1] ~= known.run then
    F.begin_epoch((it[1] or command ~= 'open') and pause or F.first_quarantine(server), last_number)
    return
  end
  if is_too_long then call('HSET', M, 'from', F.int(from)) end
  local renewed = tonumber(it[5] or 0)
  -- Renewals check the clock; a step needs to do so only if a session seems to have expired.
  if command == 'step' and renewed <= now and not F.are_some_expired() then return end
  -- Keys that belong together expire within an eighth of "idle", so some may be missing.
  if idle > 0 and known.sessions > 0 and renewed < now - idle * 3 / 4 then
    return F.handle_missing_sessions()
  end
  F.extend_late_leases(renewed)
end

function F.is_alive(session)
  local expires = call('ZSCORE', S, session)
  return expires and tonumber(expires) > now
end

function F.split_member(member)
  local bar = string.find(member, '|', 1, true)
  return string.sub(member, 1, bar - 1), string.sub(member, bar + 1)
end

function F.ticket_text(n)
  return string.format('%09d%07d', math.floor(n / 10000000), n % 10000000)
end
function F.entry_of(row) return row.ticket .. '|' .. row.member end
function F.member_of(entry) return string.sub(entry, 18) end

function F.queued_row_text(row) return row.ticket .. ' ' .. F.row_text(row) end

-- Parses the row of a member, or of a lock that is alone (member nil). Such a lock was granted at
-- once, so its token is its ticket.
function F.parse_row(member, text)
  if not text then return nil end
  local first, mode, weight, token, asked, granted, priority, label =
    string.match(text, '^(%S+) (%a) (%d+) (%d+) (%d+) (%d+) (%-?%d+) (.*)$')
  return { member = member or first, ticket = member and first or F.ticket_text(token), mode = mode,
    weight = tonumber(weight), token = tonumber(token), asked = tonumber(asked),
    granted = tonumber(granted), priority = priority, label = label, is_queued = true }
end

function F.read_row(key, member)
  return F.parse_row(member, call('HGET', F.rows_key(key), member))
end

-- Reads a name's key: the row, limit and name of a lock that is alone; nil if the name is free;
-- QUEUED if it has a queue.
function F.read_name_key(key)
  local own = call('GET', F.name_key(key))
  if not own or own == QUEUED then return own end
  local text, limit, name = string.match(own, '^(.*)\n(%d*)\n(.*)$')
  local row = F.parse_row(nil, text)
  if not row then error('a key of a name holds something else: ' .. F.name_key(key), 0) end
  return row, tonumber(limit), name
end

-- The row of a session's request; nil if it has none.
function F.find_row(key, member)
  local own = F.read_name_key(key)
  if own == QUEUED then return F.read_row(key, member) end
  return own and own.member == member and own or nil
end

-- Writes the sums over a name's holders, and more fields and values.
function F.write_sums(it, ...)
  call('HSET', F.rows_key(it.key), 'held', it.held, 'units', F.int(it.units),
    'alone', it.alone and 1 or 0, ...)
end

function F.free_name(it)
  call('DEL', F.name_key(it.key), F.rows_key(it.key), F.queue_key(it.key))
  it.one, it.limit = nil, nil
end

-- Rebuilds a queue from its rows, because somebody deleted the queue by hand.
function F.rebuild_queue(it)
  local rows, fields = {}, call('HGETALL', F.rows_key(it.key))
  for i = 1, #fields, 2 do
    local is_row = string.find(fields[i], '|', 1, true)
    if is_row then rows[#rows + 1] = F.parse_row(fields[i], fields[i + 1]) end
  end
  it.count, it.held, it.units, it.alone = #rows, 0, 0, false
  if it.count == 0 then return F.free_name(it) end
  for _, row in ipairs(rows) do
    local rank = row.token > 0 and -math.huge or 0 - row.priority
    call('ZADD', F.queue_key(it.key), F.int(rank), F.entry_of(row))
    if row.token > 0 then count_holder(it, row) end
  end
  F.expire_name_later(it.key)
  F.write_sums(it)
end

-- Removes a lock or request from a name and returns its row. "entry" is its member of the queue, if
-- the caller knows it.
function F.remove(it, member, entry)
  local ref, session = F.split_member(member)
  call('HDEL', F.info_key(session), 'r' .. ref)
  if it.one then return F.remove_single(it, member) end
  -- Somebody may have deleted the key with QUEUED by hand.
  if it.count == 0 then return F.free_name(it) end
  local row = F.read_row(it.key, member)
  entry = entry or row and F.entry_of(row)
  if entry then it.count = it.count - call('ZREM', F.queue_key(it.key), entry) end
  local was_held = row and row.token > 0
  if was_held then it.held, it.units, it.alone = it.held - 1, it.units - row.weight, false end
  if it.count == 0 then
    F.free_name(it)
  elseif row then
    call('HDEL', F.rows_key(it.key), member)
    if was_held then F.write_sums(it) end
  end
  return row
end

function F.remove_single(it, member)
  local one = it.one
  if one.member ~= member then return nil end
  F.free_name(it)
  it.count, it.held, it.units, it.alone = 0, 0, 0, false
  return one
end

-- The entries of a queue from first to last.
function F.entries(it, first, last)
  if it.one then return { F.entry_of(it.one) } end
  return call('ZRANGE', F.queue_key(it.key), first, last)
end

-- Reaps the requests of expired sessions among the first 100 requests. Returns whether there were
-- any.
function F.reap(it)
  if it.count == 0 then return false end
  if not F.are_some_expired() then
    local _, first = F.split_member(F.member_of(F.entries(it, 0, 0)[1]))
    -- The list of sessions lacks a holder, so somebody deleted the list and its count.
    if first == me or call('ZSCORE', S, first) then return false end
    F.handle_missing_sessions()
  end
  local found, is_alive = false, {}
  for _, entry in ipairs(F.entries(it, 0, 99)) do
    local member = F.member_of(entry)
    local _, session = F.split_member(member)
    if is_alive[session] == nil then is_alive[session] = F.is_alive(session) or false end
    if not is_alive[session] then
      if call('ZSCORE', S, session) then F.expire(session) end
      F.remove(it, member, entry)
      found = true
    end
  end
  return found
end

-- The row of the first waiter, or nil.
function F.first_waiting(it)
  while it.held < it.count do
    local first = call('ZRANGE', F.queue_key(it.key), it.held, it.held, 'WITHSCORES')
    local member = F.member_of(first[1])
    local row = F.read_row(it.key, member)
    if row then
      row.rank = tonumber(first[2])
      return row
    end
    -- Somebody deleted the row by hand.
    F.remove(it, member, first[1])
  end
end

-- Reads a name, reaps its expired requests, and then processes its queue.
function F.read_name(key)
  local it = { key = key, held = 0, units = 0, count = 0, alone = false }
  local own, limit = F.read_name_key(key)
  if own == QUEUED then
    local its = call('HMGET', F.rows_key(key), 'held', 'units', 'alone', 'limit')
    it.held, it.units = tonumber(its[1] or 0), tonumber(its[2] or 0)
    it.alone, it.limit = its[3] == '1', tonumber(its[4] or nil)
    it.count = call('ZCARD', F.queue_key(key))
    if it.count < it.held or it.count == 0 then F.rebuild_queue(it) end
  elseif own then
    it.one, it.count, it.limit = own, 1, limit
    count_holder(it, own)
  end
  local has_changed = false
  while F.reap(it) do has_changed = true end
  if has_changed then process_the_lock_request_queue(it) end
  return it
end

-- Gives a name a queue. The lock that was alone becomes its first member.
function F.make_queue(it)
  local one = it.one
  it.one = nil
  F.write_name_key(it.key, QUEUED)
  -- Somebody may have deleted the name's key by hand and left these keys.
  call('DEL', F.queue_key(it.key), F.rows_key(it.key))
  if not one then return end
  call('ZADD', F.queue_key(it.key), 0, F.entry_of(one))
  F.write_sums(it, one.member, F.queued_row_text(one))
end

-- Moves the holders ahead of every waiter, so that a waiter of "rank" cannot pass them.
function F.move_holders(it, rank)
  if it.held == 0 then return end
  local entries = call('ZRANGE', F.queue_key(it.key), 0, it.held - 1, 'WITHSCORES')
  for i = 1, #entries, 2 do
    if tonumber(entries[i + 1]) > rank then
      call('ZADD', F.queue_key(it.key), F.int(-math.huge), entries[i])
    end
  end
end

function F.insert(it, op, row, ticket)
  F.add_to_session(op)
  if it.count == 0 and row.token > 0 then
    F.write_single(it, op, row)
    return
  end
  if it.one or it.count == 0 then F.make_queue(it) end
  local rank = row.token > 0 and math.min(row.rank, 0) or row.rank
  if row.token == 0 and rank < 0 then F.move_holders(it, rank) end
  row.ticket, row.is_queued = F.ticket_text(ticket), true
  call('ZADD', F.queue_key(op.key), F.int(rank), F.entry_of(row))
  it.count = it.count + 1
  local text = F.queued_row_text(row)
  if it.limit then F.write_sums(it, row.member, text, 'name', op.name, 'limit', F.int(it.limit))
  else F.write_sums(it, row.member, text, 'name', op.name) end
  if idle == 0 then return end
  F.expire_name_later(op.key)
end

-- Section 4.1 "request a lock": https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock
function F.request(op, waits)
  local it = F.read_name(op.key)
  if op.mode == 's' then
    if it.limit and it.limit ~= op.limit then return F.int(-10 - it.limit) end
    it.limit = op.limit
  end
  return F.enter(it, op, waits)
end

function F.enter(it, op, waits)
  local row = F.new_row(op)
  -- A plain negation of 0 would be written as -0.
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

-- Removes a request from a name and notifies its session of the thief, or '' if the request passes.
function F.remove_and_notify(it, member, entry, thief)
  F.remove(it, member, entry)
  local ref, session = F.split_member(member)
  -- An error here (if the key has another type) must not stop the step halfway.
  redis.pcall('HSET', F.thefts_key(session), ref, thief)
  F.expire_key_later(F.thefts_key(session))
  F.add_message(session, 's ' .. ref .. ' ' .. thief)
end

function F.pass(it, row, mine)
  local limit = it.limit
  F.remove_and_notify(it, row.member, F.entry_of(row), '')
  -- Removing the last request clears the limit, which the entering request has just set.
  if mine then it.limit = limit end
end

function F.steal(op)
  local it = F.read_name(op.key)
  local limit, thief = it.limit, call('HGET', INFO, 'client')
  for _, entry in ipairs(it.held > 0 and F.entries(it, 0, it.held - 1) or {}) do
    local member = F.member_of(entry)
    F.remove_and_notify(it, member, entry, thief)
  end
  it.limit = limit
  if it.count == 0 then return F.enter(it, op, true) end
  -- The thief enters the queue ahead of all waiters, even ahead of other thieves.
  local row = F.new_row(op)
  row.rank = -math.huge
  local thief_ahead = call('ZRANGEBYSCORE', F.queue_key(op.key), '-inf', '-inf', 'LIMIT', 0, 1)[1]
  local ticket = thief_ahead and tonumber(string.match(thief_ahead, '^%d+')) - 1
  F.insert(it, op, row, ticket or next_number())
  process_the_lock_request_queue(it, row)
  return F.int(row.token)
end

-- Marks a name, and drops up to two expired marks, so that they do not accumulate.
function F.set_mark(key, member, milliseconds)
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
function F.release_or_abort(ref, key, milliseconds)
  key = key ~= '' and key or call('HGET', INFO, 'r' .. ref)
  if not key then return '-4' end
  local member, code = ref .. '|' .. me, '-4'
  local it = F.read_name(key)
  local row = F.remove(it, member)
  if milliseconds > 0 then
    if row and row.token > 0 then F.set_mark(key, member, milliseconds)
    elseif call('HGET', MARKERS, key) ~= member then code = '-6' end
  end
  process_the_lock_request_queue(it)
  return code
end

-- Returns a code if the caller's session cannot act, otherwise nil.
function F.check_session()
  if not F.is_alive(me) then return { '-2' } end
  local it = call('HMGET', INFO, 'conn', 'ttl', 'step', 'kept')
  -- Somebody deleted the hash, so nobody knows what the session had.
  if not it[2] then return { '-2' } end
  if it[1] ~= number then return { '-5' } end
  my = { ttl = tonumber(it[2]), step = it[3], kept = tonumber(it[4] or 0) }
end

-- The reply to a step that is not the next one (R1); nil if it may be executed again.
function F.reply_to_old_step(is_repeatable)
  if tonumber(ARGV[6]) > tonumber(my.step or 0) then return { '-8' } end
  if is_repeatable then return nil end
  local text = call('HGET', INFO, tostring(ARGV[6] % WINDOW)) or ''
  if string.match(text, '^%d+') ~= ARGV[6] then return { '-5' } end
  local codes = {}
  for code in string.gmatch(text, '\n([^\n]+)') do codes[#codes + 1] = code end
  return codes
end

function F.is_refused(code) return (tonumber(code) or -1) < 0 end

function F.execute(op)
  if op.kind == 'x' then return F.release_or_abort(op.ref, op.key, op.keep) end
  if op.kind == 't' then return F.steal(op) end
  return F.request(op, op.kind == 'r')
end

-- An operation raises an error (somebody wrote to a name's keys) before it writes anything. If it
-- is the first one, the step fails as a whole; a later one returns the error.
function F.try_to_execute(op, is_first)
  local is_done, code = pcall(F.execute, op)
  if is_done then return code end
  if is_first then error(code, 0) end
  if op.kind == 'x' then return op.keep > 0 and '-6' or '-4' end
  local text = type(code) == 'table' and code.err or tostring(code)
  return 'e' .. string.gsub(text, '\n', ' ')
end

-- Executes the operations that have no replies in "codes" yet.
function F.execute_all(ops, codes)
  local first = 1
  for i = #codes + 1, #ops do
    local op, last = ops[i], ops[i - 1]
    local is_member = last and op.group ~= '0' and op.group == last.group
    if not is_member then first = i end
    if op.kind == 'i' and is_member and F.is_refused(codes[i - 1]) then
      codes[i] = '-1'
    else
      codes[i] = F.try_to_execute(op, i == 1)
      if op.kind == 'i' and F.is_refused(codes[i]) then
        -- A group gets all its locks or none, so the locks that were just granted are released.
        for j = first, i - 1 do
          F.release_or_abort(ops[j].ref, ops[j].key, 0)
          codes[j] = '-1'
        end
      end
    end
  end
end

-- Continues a step after the operations that the fast path has executed, whose replies are in
-- "codes".
function F.continue_step()
  local is_begun = #codes > 0
  local failure = F.check_epoch()
  if failure then return failure end
  local refused = F.check_session()
  if refused then return refused end
  local ops = F.parse_operations()
  is_repeatable = true
  for _, op in ipairs(ops) do is_repeatable = is_repeatable and op.kind == 'x' and op.keep == 0 end
  local is_new = is_begun or is_next
  local answer = not is_new and F.reply_to_old_step(is_repeatable)
  if answer then return answer end
  F.execute_all(ops, codes)
  is_done = is_new
  return codes
end

-- Steps do not need these functions.
if command ~= 'step' then

-- Compares the bucket's version and number of shards with the caller's. Returns what differs, or
-- nil.
function F.find_mismatch()
  local it = call('HMGET', M, 'version', 'shards')
  if it[1] and it[1] ~= ARGV[10] then return { 'version', it[1] } end
  if it[2] and it[2] ~= ARGV[11] then return { 'shards', it[2] } end
end

-- The link of a session's steps, if they may take the fast path, which does not count replicas.
function F.link_for_steps(connection)
  return strict == 0 and connection .. string.match(link, ' .*') or ''
end

-- Counts the sessions after "change" sessions were added or removed. Returns whether any other
-- session is missing, because its keys expired or were deleted by hand.
function F.count_sessions(change)
  local there = call('ZCARD', S)
  call('HSET', M, 'sessions', there)
  return there < (known.sessions or 0) + change
end

-- Makes later quarantines as short as live sessions allow. The current quarantine may protect
-- unknown sessions, so it stays.
function F.shorten_quarantines()
  if now < from then return end
  if known.length > pause then call('HDEL', M, 'length') end
  local longest, first, some = 0, 0, nil
  repeat
    some = call('ZREVRANGE', S, first, first + 99)
    for _, session in ipairs(some) do
      local its = tonumber(call('HGET', F.info_key(session), 'pause') or known.longest)
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
  if F.count_sessions(0) then F.handle_missing_sessions() end
  F.compare_seen(ARGV[5], tonumber(ARGV[6]))
  F.set_lease(me, now + ttl, '0')
  call('HSET', INFO, 'conn', number, 'link', F.link_for_steps(number), 'ttl', F.int(ttl),
    'pause', string.match(link, ' (%d+)'), 'info', info, 'client', client,
    'kept', idle > 0 and F.int(now) or '0')
  call('HSET', M, 'version', version, 'shards', shards, 'pause', F.int(known.longest),
    'renewed', F.int(now))
  F.count_sessions(1)
  F.shorten_quarantines()
  F.expire_key_later(S)
  F.expire_key_later(INFO)
  -- This PUBLISH may raise an error, so that a user who may not publish learns of it.
  call('PUBLISH', P .. ':c:' .. me, 'e 0')
  return { 'open', epoch, F.int(math.max(from - now, 0)) }
end

-- Sets the expiry of all the session's keys again, if that was long ago.
function F.refresh_expiries(refs)
  local age = now - my.kept
  if idle == 0 and my.kept == 0 then return end
  if idle > 0 and my.kept > 0 and age >= 0 and age < idle / 8 then return end
  for _, key in ipairs({ S, INFO, F.thefts_key(me) }) do F.expire_key_later(key) end
  for i = 2, #refs, 2 do F.expire_name_later(refs[i]) end
  call('HSET', INFO, 'kept', idle > 0 and F.int(now) or '0')
end

function F.renew()
  F.compare_seen(ARGV[5], tonumber(ARGV[6]))
  local refused = F.check_session()
  if refused then return refused end
  F.set_lease(me, now + my.ttl, '0')
  call('HSET', M, 'renewed', F.int(now))
  F.add_message(me, ARGV[7])
  local next_expiry = '-1'
  local sessions = call('ZRANGE', S, 0, 1, 'WITHSCORES')
  for i = #sessions - 1, 1, -2 do
    if sessions[i] ~= me then next_expiry = F.int(math.max(tonumber(sessions[i + 1]) - now, 0)) end
  end
  local reply = { '0', next_expiry, F.int(math.max(from - now, 0)), epoch,
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
  for i = 8, #ARGV do call('HDEL', F.thefts_key(me), ARGV[i]) end
  local thefts = call('HGETALL', F.thefts_key(me))
  for i = 1, #thefts, 2 do
    reply[#reply + 1] = thefts[i]
    reply[#reply + 1] = 's' .. thefts[i + 1]
  end
  F.refresh_expiries(refs)
  return reply
end

-- Reads a name; false if somebody overwrote its keys, which must not stop the work on other names.
function F.try_to_read(key)
  local is_read, it = pcall(F.read_name, key)
  return is_read and it
end

-- Ends sessions, at most 100 requests a call, and grants what becomes free. Returns whether there
-- is more to do.
function F.end_sessions(sessions)
  local touched, left, is_missing, gone, lapsed = {}, 100, false, 0, {}
  for _, session in ipairs(sessions) do
    is_missing = is_missing or call('HEXISTS', F.info_key(session), 'ttl') == 0
    F.expire(session)
    has_expired = true
    local refs = F.refs_of(session)
    local most = math.min(#refs, left * 2)
    for i = 1, most, 2 do
      local key = refs[i + 1]
      if touched[key] == nil then touched[key] = F.try_to_read(key) end
      if touched[key] then F.remove(touched[key], refs[i] .. '|' .. session)
      else call('HDEL', F.info_key(session), 'r' .. refs[i]) end
      left = left - 1
    end
    if most == #refs then
      gone = gone + call('ZREM', S, session)
      local needed = call('HGET', F.info_key(session), 'pause')
      if needed then lapsed[needed] = F.int(now + needed) end
      call('DEL', F.info_key(session), F.thefts_key(session))
    end
  end
  if command == 'sweep' and next(lapsed) then F.record_lapsed(lapsed) end
  if gone > 0 then is_missing = F.count_sessions(-gone) or is_missing end
  -- It is unknown what the missing sessions had.
  if is_missing then F.handle_missing_sessions()
  elseif gone > 0 and known.length then F.shorten_quarantines() end
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
  local expired = call('ZRANGEBYSCORE', S, '-inf', F.int(now), 'LIMIT', 0, 10)
  local more = F.end_sessions(expired)
  return { (more == '1' or #expired == 10) and '1' or '0' }
end

function F.close()
  if not F.is_known(me) then return { '0' } end
  return { F.end_sessions({ me }) }
end

function F.hello()
  F.compare_seen(ARGV[5], tonumber(ARGV[6]))
  if not F.is_alive(me) or call('HEXISTS', INFO, 'ttl') == 0 then return { '-2' } end
  local connection = F.int(call('HINCRBY', INFO, 'conn', 1))
  call('HSET', INFO, 'link', F.link_for_steps(connection), 'pause', string.match(link, ' (%d+)'))
  call('HSET', M, 'pause', F.int(known.longest))
  return { connection }
end

function F.names_in_use()
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

-- The entries of a name's queue (or of its holders) or its single row, then the name and the limit.
function F.entries_and_name(key, which)
  local own, limit, name = F.read_name_key(key)
  if own ~= QUEUED then return { own or nil }, name, limit end
  local its = call('HMGET', F.rows_key(key), 'name', 'limit', 'held')
  local held = tonumber(its[3] or 0)
  if which == 'held' and held == 0 then return {} end
  return call('ZRANGE', F.queue_key(key), 0, which == 'held' and held - 1 or -1), its[1], its[2]
end

-- Section 4.5 "snapshot the lock state":
-- https://www.w3.org/TR/2023/WD-web-locks-20230105/#snapshot-the-lock-state
function F.query()
  local reply, infos = { F.int(now) }, {}
  for _, key in ipairs(ARGV[5] ~= '' and { ARGV[5] } or F.names_in_use()) do
    local is_read, all, name, limit = pcall(F.entries_and_name, key, ARGV[6])
    for _, one in ipairs(is_read and all or {}) do
      local member = one.member or F.member_of(one)
      local ref, session = F.split_member(member)
      if infos[session] == nil then
        infos[session] = F.is_alive(session) and call('HGET', F.info_key(session), 'info') or false
      end
      local row = infos[session] and (one.member and one or F.read_row(key, member))
      if row then
        local n = #reply
        reply[n + 1], reply[n + 2], reply[n + 3] = ref, name, limit or '0'
        reply[n + 4], reply[n + 5] = infos[session], F.row_text(row)
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
  reply = F.continue_step()
else
  reply = command == 'open' and F.find_mismatch() or F.check_epoch() or F[command]()
end
if is_counted then last_text = F.int(last_number) end

end

-- Records the step. Its replies are recorded unless executing the step again would give the same
-- replies.
if is_done then
  local n, count = ARGV[6], #fields
  fields[count + 1], fields[count + 2] = 'step', n
  if not is_repeatable then
    -- The digit of the slot that keeps the step.
    fields[count + 3] = string.sub('0123', n % WINDOW + 1, n % WINDOW + 1)
    fields[count + 4] = n .. '\n' .. (codes[2] and table.concat(codes, '\n') or codes[1])
  end
  call('HSET', unpack(fields))
end
if last_text then call('HSET', M, 'tok', last_text) end
-- Messages come last, because a missing right to publish must not stop a step halfway.
if messages then
  for _, what in ipairs(messages) do redis.pcall('PUBLISH', what[1], what[2]) end
end
-- It would take longer to make an array with a single entry.
return command == 'step' and #reply == 1 and reply[1] or reply
`;
