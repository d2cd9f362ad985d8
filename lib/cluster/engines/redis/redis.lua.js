'use strict';

/**
 * The Lua of web-locks/redis. In a module, so that bundlers take it along: what is read from
 * beside a file is not there in a bundle. So there is no backtick in it, and no dollar sign before
 * a brace.
 */
module.exports = String.raw`
-- The lock state of a bucket (or of a shard of one) in Redis, and the steps that change it. One
-- call is one step: the server does nothing else meanwhile. The adapter beside it calls it.
--
--   KEYS[1]  P, what all keys of the bucket begin with, with their hash tag
--   KEYS[2]  in a cluster P:m: a node that does not have all of the bucket is not to run this
--
--   ARGV     1 command, 2 session, 3 "link": number of its connection, pause (ms, how long a
--            quarantine has to be), strict (how many replicas have to be attached), 4 idle (ms
--            after which what nobody renews is gone; 0: never), then what the command takes.
--            Answers:
--
--   examine  INFO server, memory, replication: what kind of server this is
--   open     5 life, 6 token (what the client has seen), 7 ttl, 8 info, 9 client, 10 version,
--            11 shards
--              open, life, ms to the end of the quarantine; or: version, shards, and that of the
--              bucket
--   hello    5 life, 6 token
--              the number of the connection; or -2
--   step     5 run_id of the server that the connection goes to ('': nobody knows; whether the
--            session is dead is then looked at also for ends), 6 number of the step, 7 of the one
--            that it comes after (0: of none that matters), then the operations. An end is
--              x<ref> <keep>
--              <key of the name; '' if that is not known>
--            and another one (r: request, i: ifAvailable, t: steal)
--              <kind><ref> <group> <maxPending>
--              <key of the name>
--              <mode: x, s> <weight>
--              <priority> <label>
--              <limit; '' of who is not in mode s>
--              <name>
--              a code for each: greater than 0 granted, the token; 0 it waits; -1 not available;
--              -3 too many wait; -4 ended; -6 ended, and not marked, as it was not held; -10 - n:
--              the limit of the name is n; e and why: it failed; or, for all of them, -2, -5, -8.
--              The only one is answered as it is, not in an array
--   renew    5 life, 6 token, 7 what is told on the channel, so that it is seen to work, then the
--            refs of thefts that the caller knows of by earlier answers
--              0, ms to the end of the next foreign lease (-1: none), ms to the end of the
--              quarantine, life, number of the last step that was recorded (0: none), then ref,
--              token (0: it waits) of all that the session has, and ref, client id of the thief,
--              after an s, of all that was stolen from it; or -2, -5
--   sweep    whether there is more to do: 1, 0
--   close    the same
--   query    5 key of a name, or '' for all, 6 'held' for its locks alone, or ''
--              the time, then for each request: ref, name, limit, info, row
--   marked   5 key of a name
--              1, 0
--
--   -2: the session is not there; -5: a newer connection, or a later step, has replaced it; -8: the
--   step before it is not the last that was done.
--
--   P:m             HASH  version, shards, run (whose lock state this is), life (since when),
--                         lives (digests of those that it knows of, the latest first), from
--                         (nothing is granted before), length (of that quarantine), pause (the
--                         longest quarantine that a session needs which is there), lapsed (what
--                         those needed that were ended by time, and until when that counts),
--                         renewed (when somebody did so last), sessions (how many there are), tok
--                         (the last ticket or token), missed (until then names may have something
--                         of sessions that are not there any more)
--   P:s             ZSET  session -> when its lease runs out; 0: dead for ever, being deleted
--   P:i:<session>   HASH  conn (number of its connection), link (that of ARGV, if a step of it may
--                         be plain), ttl, pause (that of ARGV), info, client, till (as in P:s, for
--                         steps), graced (its lease was extended because of the clock), step (its
--                         last one), 0, 1, …
--                         (by their numbers modulo WINDOW, the last steps that may not be done
--                         again, and what each was answered), kept (when its keys were last kept
--                         from expiring; 0: they do not), r<ref> (key of the name)
--   P:t:<session>   HASH  ref -> client id of the thief: what was stolen from the session, until it
--                         tells that it knows
--   P:n:<key>       a name that somebody holds or waits for. Of a lock that nobody waits for or
--                         shares it is the lines ref|session row, limit (if any), name. Else it is
--                         "q", and there are
--   P:r:<key>       HASH  name, limit, held, units (held), alone (held exclusively), ref|session ->
--                         ticket row. A row: mode weight token asked granted priority label
--   P:q:<key>       ZSET  ticket|ref|session -> rank: the queue; its first "held" are held. Tickets
--                         are of 16 digits, so that those of one rank are in their order. The rank
--                         of who waits is minus the priority, of a thief -inf. That of who holds is
--                         0 at most, so that nobody of an ordinary priority or less gets ahead of
--                         it; before somebody of more waits, "F.insert" moves the holders ahead
--   P:k             ZSET  key of a name -> until when it is marked
--   P:w             HASH  key of a marked name -> ref|session that has marked it
--   P:c:<session>   the channel on which a session is told
--   {wl:}server     HASH  id (of a server that was promoted once, as a primary), since (when a
--                         bucket was opened there first). Not in a cluster: it is in another slot
--
-- Times are milliseconds of this server's clock, never a client's. Numbers are less than 2^53.
-- The first write of a call may be refused by the server, a later one not, so a call is done
-- or not.

-- Asked where the keys are.
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
-- The last ticket or token; as text, if it is of this call.
local last_number, last_text = 0, nil

-- What most steps are, and no more: that the server and the session are as they were, that names
-- which nobody has are requested, that locks end which nobody waits for. So they take as few
-- commands as there can be.

-- The answers of a step. Whether these are all, and to be recorded. Whether it may be done again:
-- ends that mark nothing are what they were. A table with room does not grow, which would take as
-- long as half a command.
local codes, is_done, repeats = { nil }, false, true
-- Whether it is the next one after the last that was done.
local is_next = false
-- What is to be written of the session: the key, fields and values.
local fields = { INFO, nil, nil, nil, nil, nil, nil }

if command == 'step' then
  local its = call('HMGET', INFO, 'link', 'step', 'till')
  local run, i, last, has_only_ends = ARGV[5], 8, #ARGV, true
  is_next = ARGV[6] - (its[2] or 0) > 0 and (ARGV[7] == '0' or ARGV[7] == its[2])
  -- Whether there is nothing that "F.awake" and "F.refusal" would have to do.
  local is_plain = run ~= '' and its[1] == link and is_next
  -- Who has a lock may end it, on whatever server, and also when the lease is over. Not where
  -- somebody wants to know whether it is.
  for k = i, last do has_only_ends = has_only_ends and string.byte(ARGV[k]) == 120 end
  if is_plain and not has_only_ends then
    time = call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
    local it = call('HMGET', M, 'run', 'from', 'tok')
    last_number = tonumber(it[3] or 0)
    is_plain = it[1] == run and it[2] - now <= 0 and last_number >= 10000000
      and its[3] and its[3] - now > 0
  end
  -- Refs, and keys, of names that are gone when all is looked at.
  local ended, gone = { nil }, { nil }
  local at
  while is_plain and i <= last do
    local op = ARGV[i]
    if string.byte(op) == 120 then
      local ref, key = string.match(op, '^x(%d+) 0\n(.+)$')
      if not ref then break end
      local own, mine = P .. ':n:' .. key, ref .. '|' .. me .. ' '
      -- Somebody may have written to the key.
      local one = redis.pcall('GET', own)
      if type(one) ~= 'string' or string.sub(one, 1, #mine) ~= mine then break end
      local n = #ended + 1
      ended[n], gone[n], codes[#codes + 1] = 'r' .. ref, own, '-4'
    else
      -- Not those of a group.
      local ref, key, mode, rest =
        string.match(op, '^[ir](%d+) 0 %S+\n([^\n]+)\n(%a %d+)\n(.*)$')
      if not ref then break end
      -- Nothing is in the way of the first on a free name: it is granted, if it is free.
      local token, n = last_number + 1, #fields
      -- In halves: '%d' is of 32 bits where the server is, and '%.0f' takes as long as a command.
      local text = string.format('%d%07d', math.floor(token / 10000000), token % 10000000)
      -- "now", in a way that takes less.
      at = at or time[1] .. string.sub('00000' .. time[2], -6, -4)
      -- As "F.write_one" writes it.
      local own, one = P .. ':n:' .. key, ref .. '|' .. me .. ' ' .. mode .. ' ' .. text .. ' '
        .. at .. ' ' .. at .. ' ' .. rest
      local set = idle == '0' and redis.pcall('SET', own, one, 'NX')
        or idle ~= '0' and redis.pcall('SET', own, one, 'NX', 'PX', idle)
      -- Somebody has part in the name; or nothing can be written, and what follows tells why.
      if not set or set.err then break end
      last_number, last_text, repeats = token, text, false
      fields[n + 1], fields[n + 2], codes[#codes + 1] = 'r' .. ref, key, text
    end
    i = i + 1
  end
  is_done = is_plain and i > last
  -- Before what ends: it may be what was asked for just now.
  if #fields > 1 and (ended[1] or not is_done) then
    call('HSET', unpack(fields))
    fields = { INFO }
  end
  if ended[1] then
    call('DEL', unpack(gone))
    call('HDEL', INFO, unpack(ended))
  end
end

-- What is told, and to whom.
local reply, news = codes, nil

-- Everything else.
if not is_done then

time = time or call('TIME')
now = now or time[1] * 1000 + math.floor(time[2] / 1000)
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
local number, pause, strict = string.match(link, '^(%d+) (%d+) (%d+)$')
pause, strict, idle = tonumber(pause), tonumber(strict), tonumber(idle)
-- Nothing is granted before; whether a ticket or token was given here.
local from, is_counted = 0, false
-- All functions but the next: they would be too many locals. Both are declared here, because Lua
-- takes longer to find what was declared earlier, for each function that needs it.
local call, F = call, {}

local function next_number()
  last_number, is_counted = last_number + 1, true
  return last_number
end

-- Counts a row among those that are held.
local function count_held(it, row)
  it.held, it.units, it.alone = it.held + 1, it.units + row.weight, row.mode == 'x'
end

-- The only one that decides what is granted: those who wait, in their order, as far as they go
-- together with what is held. They are told. "mine" is the caller's own request, who is not: its
-- row, which may not be in the queue yet, and then comes by its rank, and is not written.
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
    row.token, row.granted = next_number(), now
    count_held(it, row)
    if row == mine and not row.is_queued then return end
    if row.rank > 0 then call('ZADD', F.queue_of(it.key), 0, F.place_of(row)) end
    F.write(it, row.member, F.text_of_queued(row))
    if row ~= mine then
      local ref, session = F.split(row.member)
      F.tell(session, 'g ' .. ref .. ' ' .. F.int(row.token))
    end
  end
end

-- What a key of a name holds if there is a queue.
local QUEUED = 'q'

-- What is known of the bucket: "run", "lives", "sessions", "length"; of the caller's session.
local life, known, my = '', {}, nil

local S = P .. ':s'
-- In halves, as above, but for what is rare: less than 0, or infinite.
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

-- What nobody keeps so goes by itself, long after all leases. Not where the server evicts what
-- would.
function F.keep(key)
  if idle > 0 then call('PEXPIRE', key, F.int(idle)) else call('PERSIST', key) end
end

-- All keys of a name, together: without the first a name is free.
function F.keep_name(key)
  for _, its in ipairs({ F.own_of(key), F.rows_of(key), F.queue_of(key) }) do F.keep(its) end
end

function F.text_of(row)
  return table.concat({ row.mode, F.int(row.weight), F.int(row.token), F.int(row.asked),
    F.int(row.granted), row.priority, row.label }, ' ')
end

-- The row of a request that is made now.
function F.new_row(op)
  return { member = op.ref .. '|' .. me, mode = op.mode, weight = op.weight, token = 0,
    asked = now, granted = 0, priority = op.priority, label = op.label }
end

-- Writes what a name is: a lock that is alone, or QUEUED.
function F.write_own(key, text)
  if idle == 0 then call('SET', F.own_of(key), text)
  else call('SET', F.own_of(key), text, 'PX', F.int(idle)) end
end

function F.write_one(it, op, row)
  local limit = it.limit and F.int(it.limit) or ''
  F.write_own(op.key, row.member .. ' ' .. F.text_of(row) .. '\n' .. limit .. '\n' .. op.name)
end

-- Notes that the session has part in a name. First: what is written of the name before would be
-- nobody's if this cannot be.
function F.enroll(op)
  call('HSET', INFO, 'r' .. op.ref, op.key)
end

-- What a session has part in: ref, key of the name, and so on.
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

-- How a life is written down, among the last hundred: it may be any text.
function F.digest(text) return string.sub(redis.sha1hex(text), 1, 16) .. ' ' end
function F.lives()
  known.lives = known.lives or call('HGET', M, 'lives') or ''
  return known.lives
end
function F.learn(text) known.lives = string.sub(F.digest(text) .. F.lives(), 1, 1700) end

-- This and "F.kill" write when a lease runs out, nobody else: in both places that have it.
function F.lease(session, till, graced)
  call('ZADD', S, F.int(till), session)
  call('HSET', F.info_of(session), 'till', F.int(till), 'graced', graced)
end

-- From here on a session cannot renew.
function F.kill(session)
  call('ZADD', S, 0, session)
  call('HSET', F.info_of(session), 'till', '0')
end

-- Another life of the server, or another server: it may lack something, so it grants nothing for
-- "wait". Who held a lock hears of it by his own clock before anybody else gets it. Leases that
-- are still known last as long, so that who can renew goes on. Tokens are greater than "last".
-- A quarantine that is longer goes on.
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

-- For how many milliseconds a server that was promoted once has been a primary, as far as is known:
-- it tells that it was, not when. So the first bucket that is opened there writes that down. Each
-- promotion changes the replication id.
function F.reign(replication)
  if KEYS[2] then return 0 end
  local key = string.match(P, '^[^{]*') .. '{wl:}server'
  local id = known.run .. ' ' .. (F.field(replication, 'master_replid') or '')
  local its = redis.pcall('HMGET', key, 'id', 'since')
  -- It may be none of those keys that the user may use.
  if its.err then return 0 end
  if its[1] ~= id or not tonumber(its[2]) then
    redis.pcall('HSET', key, 'id', id, 'since', F.int(now))
    its[2] = now
  end
  if idle > 0 then redis.pcall('PEXPIRE', key, F.int(idle)) end
  return now - its[2]
end

-- A new bucket has lost nothing, unless the server was there for less than a lease, or has taken
-- over from another for less. Returns for how long it grants nothing.
function F.childhood(server)
  local replication = call('INFO', 'replication')
  local past = F.field(replication, 'master_replid2') or ''
  local age = math.max(0, tonumber(F.field(server, 'uptime_in_seconds') or 0) - 1) * 1000
  if known.run == '' then return pause end
  if not string.match(past, '^0*$') then age = math.min(age, math.max(0, F.reign(replication))) end
  return math.max(0, pause - age)
end

-- What a client has seen: if this server was not there, what others granted may be missing here.
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

-- Sessions have gone by themselves, or are deleted, and names have what was theirs for as long as
-- those last. Some of them may believe that they hold something.
local ALMOST_FOR_EVER = 604800000
function F.miss()
  known.missed, has_dead = now + (idle > 0 and idle or ALMOST_FOR_EVER), nil
  call('HSET', M, 'missed', F.int(known.missed))
  F.reborn(pause, last_number)
end

-- Extends leases if the clock has jumped, or everybody stood still: if nobody has renewed for half
-- a lease, those whose lease it is could not, so they get another, once.
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

-- A session that was ended because its time was over may have been renewed at another copy of the
-- server, which clients can come back from. So what it needed counts for that time again.
function F.longest_lapsed(text)
  local longest = 0
  for needed, till in string.gmatch(text or '', '(%d+) (%d+)') do
    if tonumber(till) > now then longest = math.max(longest, tonumber(needed)) end
  end
  return longest
end

-- "ended": the pauses that sessions needed which were ended by time just now.
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

-- To be done before anything else. Returns an error, or nothing.
function F.awake()
  local it = call('HMGET', M, 'run', 'from', 'pause', 'tok', 'renewed', 'life', 'sessions',
    'missed', 'length', 'lapsed')
  -- Who only looks, or has nothing any more, begins no life.
  local is_looking = command == 'query' or command == 'marked' or command == 'close'
  known.missed = tonumber(it[8] or 0)
  if not it[1] and is_looking then return end
  -- The server that a connection goes to does not change while the connection is there.
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
  -- A clock that was set back must not make it longer.
  local is_too_long = from > now + known.length
  if is_too_long then from = now + known.length end
  if it[1] ~= known.run then
    F.reborn((it[1] or command ~= 'open') and pause or F.childhood(server), last_number)
    return
  end
  if is_too_long then call('HSET', M, 'from', F.int(from)) end
  local renewed = tonumber(it[5])
  -- A step leaves that to those who renew, unless somebody seems to be dead.
  if command == 'step' and renewed <= now and not F.are_there_dead() then return end
  -- What belongs together expires within an eighth of that time: some of it may have.
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

-- The row of what is written of a member of a queue; or of who is alone on a name (nil): who was
-- granted it at once, so that the ticket is the token.
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

-- Who is alone on a name: its row, the limit, the name as it is written. Nothing if nobody has part
-- in it; QUEUED if there is a queue.
function F.read_own(key)
  local own = call('GET', F.own_of(key))
  if not own or own == QUEUED then return own end
  local text, limit, name = string.match(own, '^(.*)\n(%d*)\n(.*)$')
  local row = F.row_of(nil, text)
  if not row then error('a key of a name holds something else: ' .. F.own_of(key), 0) end
  return row, tonumber(limit), name
end

-- The row of a request of a session, whose key of the name this is.
function F.find_row(key, member)
  local own = F.read_own(key)
  if own == QUEUED then return F.read_row(key, member) end
  return own and own.member == member and own or nil
end

-- Writes what is held of a name, and fields and values besides.
function F.write(it, ...)
  call('HSET', F.rows_of(it.key), 'held', it.held, 'units', F.int(it.units),
    'alone', it.alone and 1 or 0, ...)
end

-- Nobody has part in a name any more.
function F.forget(it)
  call('DEL', F.own_of(it.key), F.rows_of(it.key), F.queue_of(it.key))
  it.one, it.limit = nil, nil
end

-- Somebody has deleted the queue of a name, and not its rows: it is made of them again.
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

-- Takes a lock or a request out of a name. Returns its row, if it was there. "place": in the queue,
-- where that is known.
function F.take_out(it, member, place)
  local ref, session = F.split(member)
  call('HDEL', F.info_of(session), 'r' .. ref)
  if it.one then return F.take_out_one(it, member) end
  -- Somebody may have deleted the key that says that there is a queue.
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

-- The places in the queue of a name, from and to.
function F.places(it, first, last)
  if it.one then return { F.place_of(it.one) } end
  return call('ZRANGE', F.queue_of(it.key), first, last)
end

-- Those among the first rows of a name whose sessions are dead go. Returns whether there were any.
function F.bury(it)
  if it.count == 0 or not F.are_there_dead() then return false end
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

-- The row of the first who waits; nil if nobody does.
function F.first_waiting(it)
  while it.held < it.count do
    local first = call('ZRANGE', F.queue_of(it.key), it.held, it.held, 'WITHSCORES')
    local member = F.member_of(first[1])
    local row = F.read_row(it.key, member)
    if row then
      row.rank = tonumber(first[2])
      return row
    end
    -- Somebody has deleted the rows of the name.
    F.take_out(it, member, first[1])
  end
end

-- How a name is, without the dead: what can be granted by that is.
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

-- A name gets a queue. The lock that was alone on it becomes the first of it.
function F.unfold(it)
  local one = it.one
  it.one = nil
  F.write_own(it.key, QUEUED)
  -- Of an old one something may be left, if somebody has deleted a key.
  call('DEL', F.queue_of(it.key), F.rows_of(it.key))
  if not one then return end
  call('ZADD', F.queue_of(it.key), 0, F.place_of(one))
  F.write(it, one.member, F.text_of_queued(one))
end

-- Moves who holds a name and would stand behind a rank ahead of all.
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
  -- Not the negative: -0 is written with its sign.
  row.rank = op.kind == 't' and -math.huge or 0 - op.priority
  process_the_lock_request_queue(it, row)
  if row.token == 0 then
    if not waits then return '-1' end
    local is_limited = op.kind == 'r' and op.most >= 0
    if is_limited and it.count - it.held >= op.most then return '-3' end
  end
  F.insert(it, op, row, row.token > 0 and row.token or next_number())
  return F.int(row.token)
end

function F.steal(op)
  local it = F.read_name(op.key)
  local limit, thief = it.limit, call('HGET', INFO, 'client')
  for _, place in ipairs(it.held > 0 and F.places(it, 0, it.held - 1) or {}) do
    local member = F.member_of(place)
    F.take_out(it, member, place)
    local ref, session = F.split(member)
    -- Not what stops a step in the middle, if somebody has written to that key.
    redis.pcall('HSET', F.thefts_of(session), ref, thief)
    F.keep(F.thefts_of(session))
    F.tell(session, 's ' .. ref .. ' ' .. thief)
  end
  it.limit = limit
  if it.count == 0 then return F.ask(it, op, true) end
  -- Ahead of everybody, also of thieves who wait.
  local row = F.new_row(op)
  row.rank = -math.huge
  local thief_ahead = call('ZRANGEBYSCORE', F.queue_of(op.key), '-inf', '-inf', 'LIMIT', 0, 1)[1]
  local ticket = thief_ahead and tonumber(string.match(thief_ahead, '^%d+')) - 1
  F.insert(it, op, row, ticket or next_number())
  process_the_lock_request_queue(it, row)
  return F.int(row.token)
end

-- Marks a name. Drops two marks that are over, if there are so many: so they do not add up.
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

-- "milliseconds": for which the name is marked; 0 for not.
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

-- What has become of the caller's session: why it cannot do anything, or nothing.
function F.refusal()
  if not F.is_alive(me) then return { '-2' } end
  local it = call('HMGET', INFO, 'conn', 'ttl', 'step', 'kept')
  -- Somebody has deleted the key, and what the session had is not known.
  if not it[2] then return { '-2' } end
  if it[1] ~= number then return { '-5' } end
  my = { ttl = tonumber(it[2]), step = it[3], kept = tonumber(it[4] or 0) }
end

-- What a step is answered that is not the next one, without doing anything; nothing if it may be
-- done again.
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

-- What goes wrong (somebody has written to the keys of a name) does so before anything is written.
-- In the first operation it is told as an error, so nothing is done; later, as the answer.
function F.try(op, is_first)
  local is_done, code = pcall(F.do_one, op)
  if is_done then return code end
  if is_first then error(code, 0) end
  if op.kind == 'x' then return op.keep > 0 and '-6' or '-4' end
  local text = type(code) == 'table' and code.err or tostring(code)
  return 'e' .. string.gsub(text, '\n', ' ')
end

-- Operations from one on; "codes" are the answers of those before.
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
        -- All or nothing: those of the group that were granted just now are gone again.
        for j = first, i - 1 do
          F.finish(ops[j].ref, ops[j].key, 0)
          codes[j] = '-1'
        end
      end
    end
  end
end

-- A step of which something was not plain. "codes" has the answers of what was, and is done.
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

-- What is of no use to steps.
if command ~= 'step' then

-- Why the bucket is not the caller's, or nothing.
function F.otherness()
  local it = call('HMGET', M, 'version', 'shards')
  if it[1] and it[1] ~= ARGV[10] then return { 'version', it[1] } end
  if it[2] and it[2] ~= ARGV[11] then return { 'shards', it[2] } end
end

-- That of a session's steps, if they may be plain: no replicas have to be counted.
function F.link_of(connection)
  return strict == 0 and connection .. string.match(link, ' .*') or ''
end

-- Counts the sessions that there are, after so many have come (or gone, if less than 0). Returns
-- whether others are missing: they have expired, after a jump of the clock perhaps, or somebody has
-- deleted them, with what they held.
function F.count(change)
  local there = call('ZCARD', S)
  call('HSET', M, 'sessions', there)
  return there < (known.sessions or 0) + change
end

-- Quarantines need not be longer than the sessions that are there need. Within one it may be for
-- sessions that are not known here.
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
  -- Not as the rest: who may not publish is to know it.
  call('PUBLISH', P .. ':c:' .. me, 'e 0')
  return { 'open', life, F.int(math.max(from - now, 0)) }
end

-- Keeps all that the session is part of, if that was some time ago.
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
    -- A name whose keys somebody has written to is lost to who has part in it, and nothing else.
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

-- How a name is; false if somebody has written to its keys, which is in nobody else's way.
function F.try_to_read(key)
  local is_read, it = pcall(F.read_name, key)
  return is_read and it
end

-- Ends sessions, as far as 100 requests allow, and grants what becomes free. Returns whether there
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
  -- What they had is not known.
  if is_missing then F.miss() elseif gone > 0 and known.length then F.shorten() end
  for _, it in pairs(touched) do if it then process_the_lock_request_queue(it) end end
  return left == 0 and '1' or '0'
end

-- After a quarantine, the caller's names are set going, too.
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
  if not call('ZSCORE', S, me) and call('EXISTS', INFO) == 0 then return { '0' } end
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

-- The keys of all names that somebody holds or waits for.
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

-- Of a name: places in its queue (or those that are held) or the lock that is alone, the name as it
-- is written, the limit.
function F.all_of(key, which)
  local own, limit, name = F.read_own(key)
  if own ~= QUEUED then return { own or nil }, name, limit end
  local its = call('HMGET', F.rows_of(key), 'name', 'limit', 'held')
  local held = tonumber(its[3] or 0)
  if which == 'held' and held == 0 then return {} end
  return call('ZRANGE', F.queue_of(key), 0, which == 'held' and held - 1 or -1), its[1], its[2]
end

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

-- Notes that the step is done, and what it was answered, unless it may be done again.
if is_done then
  local n, count = ARGV[6], #fields
  fields[count + 1], fields[count + 2] = 'step', n
  if not repeats then
    -- One of WINDOW digits.
    fields[count + 3] = string.sub('0123', n % WINDOW + 1, n % WINDOW + 1)
    fields[count + 4] = n .. '\n' .. (codes[2] and table.concat(codes, '\n') or codes[1])
  end
  call('HSET', unpack(fields))
end
if last_text then call('HSET', M, 'tok', last_text) end
-- At last: who may not publish must not stop a step in the middle.
if news then
  for _, what in ipairs(news) do redis.pcall('PUBLISH', what[1], what[2]) end
end
-- An array of one takes longer to make.
return command == 'step' and #reply == 1 and reply[1] or reply
`;
