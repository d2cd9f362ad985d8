-- The lock state of a bucket (or of a shard of one) in Redis, and the steps that change it. One
-- call is one step: the server does nothing else meanwhile. The adapter beside it calls it.
--
--   KEYS[1]  P, what all keys of the bucket begin with, with their hash tag
--   KEYS[2]  P:m: a node of a cluster that does not have all of the bucket is not to run this
--   ARGV     command, session, number of its connection, pause in ms (how long a quarantine
--            has to be), strict (how many replicas have to be attached), then what the command
--            takes
--
--   P:m             HASH  version, shards, run (whose lock state this is), from (nothing is granted
--                         before), pause (the longest quarantine that anybody needs), renewed (when
--                         somebody did so last), tok (the last ticket or token)
--   P:s             ZSET  session -> when its lease runs out; 0: dead for ever, being deleted
--   P:i:<session>   HASH  conn, ttl, info, client, graced (its lease was extended because of
--                         the clock)
--   P:o:<session>   HASH  ref -> key of the name
--   P:q:<key>       ZSET  ref|session -> ticket: the queue; its first `held` are held
--   P:n:<key>       HASH  name, limit, held, units (held), alone (held exclusively),
--                         ref|session -> mode weight token asked granted label
--   P:k             ZSET  key of a name -> until when it is marked
--   P:w             HASH  key of a marked name -> ref|session that has marked it
--   P:c:<session>   the channel on which a session is told
--
-- Times are milliseconds of this server's clock, never a client's. Numbers are less than 2^53.
-- The first write of a call may be refused by the server, a later one not, so a call is done
-- or not.

local P, command, me, number = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local pause, strict = tonumber(ARGV[4] or 0), tonumber(ARGV[5] or 0)
local call = redis.call

local function int(n) return string.format('%.0f', n) end

local M, S, MARKS, MARKERS = P .. ':m', P .. ':s', P .. ':k', P .. ':w'
local function info_of(session) return P .. ':i:' .. session end
local function refs_of(session) return P .. ':o:' .. session end
local function queue_of(key) return P .. ':q:' .. key end
local function rows_of(key) return P .. ':n:' .. key end

local time = call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now = math.floor(micros / 1000)
local from = 0

-- What is told is told last: who may not publish must not stop a step in the middle.
local news = {}
local function tell(session, what) news[#news + 1] = { P .. ':c:' .. session, what } end

local function field(text, name) return string.match(text, name .. ':([^\r\n]*)') end

-- Another life of the server, or another server: it may lack something, so it grants nothing for
-- one pause. Who held a lock hears of it by his own clock before anybody else gets it. Leases that
-- are still known last as long, so that who can renew goes on.
local function reborn(server, run, known, last)
  local wait = pause
  if not known and command == 'open' then
    -- A new bucket has lost nothing, unless the server was there for less than a lease, or has
    -- taken over from another.
    local past = field(call('INFO', 'replication'), 'master_replid2') or ''
    local uptime = tonumber(field(server, 'uptime_in_seconds') or 0)
    if run ~= '' and string.match(past, '^0*$') then
      wait = math.max(0, pause - math.max(0, uptime - 1) * 1000)
    end
  end
  from = now + wait
  call('HSET', M, 'run', run, 'from', int(from), 'pause', int(pause), 'renewed', int(now),
    'tok', int(math.max(last + 1000000, micros)))
  local sessions = call('ZRANGEBYSCORE', S, '(0', '+inf')
  for _, session in ipairs(sessions) do
    local ttl = tonumber(call('HGET', info_of(session), 'ttl') or 0)
    call('ZADD', S, int(now + ttl), session)
    call('HSET', info_of(session), 'graced', '0')
  end
end

-- Extends leases if the clock has jumped, or everybody stood still: if nobody has renewed for half
-- a lease, those whose lease it is could not, so they get another, once.
local function grace(renewed)
  if renewed <= now and renewed >= now - 1000 then return end
  local sessions = call('ZRANGEBYSCORE', S, '(0', '+inf', 'WITHSCORES')
  for i = 1, #sessions, 2 do
    local session = sessions[i]
    local known = call('HMGET', info_of(session), 'ttl', 'graced')
    local ttl = tonumber(known[1] or 0)
    local is_late = renewed < now - ttl / 2 and known[2] ~= '1'
    if is_late or tonumber(sessions[i + 1]) > now + ttl then
      call('ZADD', S, int(now + ttl), session)
      call('HSET', info_of(session), 'graced', '1')
    end
  end
  if renewed > now then call('HSET', M, 'renewed', int(now)) end
end

-- To be done before anything else. Returns an error, or nothing.
local function awake()
  local known = call('HMGET', M, 'run', 'from', 'pause', 'tok', 'renewed')
  local server = call('INFO', 'server')
  local run = field(server, 'run_id') or ''
  if strict > 0 then
    local good = field(call('INFO', 'replication'), 'min_slaves_good_slaves')
    if tonumber(good or 0) < strict then
      return redis.error_reply('NOREPLICAS not all replicas are attached')
    end
  end
  pause = math.max(pause, tonumber(known[3] or 0))
  if known[1] ~= run then
    reborn(server, run, known[1], tonumber(known[4] or 0))
    return
  end
  from = tonumber(known[2])
  -- A clock that was set back must not make it longer.
  if from > now + pause then
    from = now + pause
    call('HSET', M, 'from', int(from))
  end
  grace(tonumber(known[5]))
end

local has_dead
local function are_there_dead()
  if has_dead == nil then has_dead = call('ZCOUNT', S, '-inf', int(now)) > 0 end
  return has_dead
end

local function is_alive(session)
  local expires = call('ZSCORE', S, session)
  return expires and tonumber(expires) > now
end

local function split(member)
  local bar = string.find(member, '|', 1, true)
  return string.sub(member, 1, bar - 1), string.sub(member, bar + 1)
end

local function write_row(key, member, row)
  call('HSET', rows_of(key), member, table.concat({ row.mode, int(row.weight), int(row.token),
    int(row.asked), int(row.granted), row.label }, ' '))
end

local function read_row(key, member)
  local text = call('HGET', rows_of(key), member)
  if not text then return nil end
  local mode, weight, token, asked, granted, label =
    string.match(text, '^(%a) (%d+) (%d+) (%d+) (%d+) (.*)$')
  return { mode = mode, weight = tonumber(weight), token = tonumber(token),
    asked = tonumber(asked), granted = tonumber(granted), label = label }
end

-- How a name is.
local function read_name(key)
  local it = call('HMGET', rows_of(key), 'held', 'units', 'alone', 'limit')
  return { held = tonumber(it[1] or 0), units = tonumber(it[2] or 0), alone = it[3] == '1',
    limit = tonumber(it[4] or nil), count = call('ZCARD', queue_of(key)) }
end

-- Whether a request is granted behind what is held.
local function fits(it, mode, weight)
  if it.held == 0 then return true end
  if it.alone or mode ~= 's' then return false end
  return (it.limit or 0) == 0 or it.units + weight <= it.limit
end

local function hold(key, it, member, row, token)
  row.token, row.granted = token, now
  write_row(key, member, row)
  it.held, it.units, it.alone = it.held + 1, it.units + row.weight, row.mode == 'x'
  call('HSET', rows_of(key), 'held', it.held, 'units', int(it.units), 'alone', it.alone and 1 or 0)
end

local function remove(key, member)
  local row = read_row(key, member)
  if not row then return nil end
  local ref, session = split(member)
  call('HDEL', refs_of(session), ref)
  call('ZREM', queue_of(key), member)
  call('HDEL', rows_of(key), member)
  if row.token > 0 then
    call('HINCRBY', rows_of(key), 'held', -1)
    call('HINCRBY', rows_of(key), 'units', int(0 - row.weight))
    call('HSET', rows_of(key), 'alone', 0)
  end
  if call('EXISTS', queue_of(key)) == 0 then call('DEL', rows_of(key)) end
  return row
end

-- Deletes those of the first rows of a name whose sessions are dead. Returns whether there were
-- any.
local function bury(key)
  if not are_there_dead() then return false end
  local found = false
  for _, member in ipairs(call('ZRANGE', queue_of(key), 0, 99)) do
    local _, session = split(member)
    if not is_alive(session) then
      -- From here on it cannot renew.
      if call('ZSCORE', S, session) then call('ZADD', S, 0, session) end
      remove(key, member)
      found = true
    end
  end
  return found
end

-- Grants what can be granted of a name, and tells those who get it.
local function process(key)
  if now < from then return end
  repeat local again = bury(key) until not again
  local it = read_name(key)
  while it.count > it.held do
    local member = call('ZRANGE', queue_of(key), it.held, it.held)[1]
    local row = read_row(key, member)
    if not fits(it, row.mode, row.weight) then return end
    hold(key, it, member, row, call('HINCRBY', M, 'tok', 1))
    local ref, session = split(member)
    tell(session, 'g ' .. ref .. ' ' .. int(row.token))
  end
end

local function insert(op, it, ticket)
  local member = op.ref .. '|' .. me
  local row = { mode = op.mode, weight = op.weight, token = 0, asked = now, granted = 0,
    label = op.label }
  call('ZADD', queue_of(op.key), int(ticket), member)
  write_row(op.key, member, row)
  call('HSET', rows_of(op.key), 'name', op.name)
  if it.limit then call('HSET', rows_of(op.key), 'limit', int(it.limit)) end
  call('HSET', refs_of(me), op.ref, op.key)
  return member, row
end

local function request(op, waits)
  local known = read_row(op.key, op.ref .. '|' .. me)
  if known then return int(known.token) end
  local it = read_name(op.key)
  local function is_other() return op.mode == 's' and it.limit and it.limit ~= op.limit end
  local function is_free() return it.count == it.held and fits(it, op.mode, op.weight) end
  if (is_other() or not is_free()) and bury(op.key) then
    process(op.key)
    it = read_name(op.key)
  end
  if is_other() then return int(-10 - it.limit) end
  local is_granted = now >= from and is_free()
  if not is_granted then
    if not waits then return '-1' end
    if op.most >= 0 and it.count - it.held >= op.most then return '-3' end
  end
  if op.mode == 's' then it.limit = it.limit or op.limit end
  local ticket = call('HINCRBY', M, 'tok', 1)
  local member, row = insert(op, it, ticket)
  if not is_granted then return '0' end
  hold(op.key, it, member, row, ticket)
  return int(ticket)
end

local function steal(op)
  local known = read_row(op.key, op.ref .. '|' .. me)
  if known then return int(known.token) end
  local it = read_name(op.key)
  local thief = call('HGET', info_of(me), 'client')
  for _, member in ipairs(it.held > 0 and call('ZRANGE', queue_of(op.key), 0, it.held - 1) or {}) do
    remove(op.key, member)
    local ref, session = split(member)
    tell(session, 's ' .. ref .. ' ' .. thief)
  end
  it.held, it.units = 0, 0
  -- Ahead of everybody.
  local first = call('ZRANGE', queue_of(op.key), 0, 0, 'WITHSCORES')
  local ticket = first[2] and tonumber(first[2]) - 1 or call('HINCRBY', M, 'tok', 1)
  local member, row = insert(op, it, ticket)
  if now < from then return '0' end
  hold(op.key, it, member, row, call('HINCRBY', M, 'tok', 1))
  return int(row.token)
end

-- Marks a name. Drops two marks that are over, if there are so many: so they do not add up. Not
-- keys that expire: a server that is full may evict those.
local function mark(key, member, keep)
  call('ZADD', MARKS, int(now + keep), key)
  call('HSET', MARKERS, key, member)
  for _, over in ipairs(call('ZRANGEBYSCORE', MARKS, '-inf', int(now), 'LIMIT', 0, 2)) do
    call('ZREM', MARKS, over)
    call('HDEL', MARKERS, over)
  end
end

-- `keep`: milliseconds for which the name is marked; 0 for not.
local function finish(ref, key, keep)
  key = key ~= '' and key or call('HGET', refs_of(me), ref)
  local member = ref .. '|' .. me
  local row = key and remove(key, member)
  local code = '-4'
  if keep > 0 then
    if row and row.token > 0 then mark(key, member, keep)
    elseif call('HGET', MARKERS, key) ~= member then code = '-6' end
  end
  if not row then return code end
  local it = read_name(key)
  -- One of many readers went, so those behind them wait on.
  local changes_nothing = it.held > 0 and row.token > 0 and (it.limit or 0) == 0
  if it.count > it.held and not changes_nothing then process(key) end
  return code
end

-- Ten arguments an operation; of an end the limit is `keep`. Codes, one for each: greater than 0
-- granted, the token; 0 it waits; -1 not available; -3 too many wait; -4 ended; -6 ended, and not
-- marked, as it was not held; -10 - n: the limit of the name is n.
local function step()
  local ops, codes = {}, {}
  for i = 6, #ARGV, 10 do
    ops[#ops + 1] = { kind = ARGV[i], ref = ARGV[i + 1], key = ARGV[i + 2], name = ARGV[i + 3],
      mode = ARGV[i + 4], limit = tonumber(ARGV[i + 5]), weight = tonumber(ARGV[i + 6]),
      most = tonumber(ARGV[i + 7]), label = ARGV[i + 8], group = ARGV[i + 9] }
  end
  local first = 1
  for i, op in ipairs(ops) do
    local last = ops[i - 1]
    local is_member = last and op.group ~= '0' and op.group == last.group
    if not is_member then first = i end
    if op.kind == 'x' then
      codes[i] = finish(op.ref, op.key, op.limit)
    elseif op.kind == 't' then
      codes[i] = steal(op)
    elseif op.kind == 'r' then
      codes[i] = request(op, true)
    elseif is_member and tonumber(codes[i - 1]) < 0 then
      codes[i] = '-1'
    else
      codes[i] = request(op, false)
      if tonumber(codes[i]) < 0 then
        -- All or nothing: those of the group that were granted just now are gone again.
        for j = first, i - 1 do
          finish(ops[j].ref, ops[j].key, 0)
          codes[j] = '-1'
        end
      end
    end
  end
  return codes
end

-- Why the caller's session cannot do anything, or nothing.
local function refusal()
  if not is_alive(me) then return { '-2' } end
  if call('HGET', info_of(me), 'conn') ~= number then return { '-5' } end
end

local function open()
  local ttl, info, client, version, shards =
    tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9], ARGV[10]
  local known = call('HMGET', M, 'version', 'shards')
  if known[1] and known[1] ~= version then return { 'version', known[1] } end
  if known[2] and known[2] ~= shards then return { 'shards', known[2] } end
  call('HSET', M, 'version', version, 'shards', shards, 'pause', int(pause), 'renewed', int(now))
  call('ZADD', S, int(now + ttl), me)
  call('HSET', info_of(me), 'conn', number, 'ttl', int(ttl), 'info', info, 'client', client,
    'graced', '0')
  -- Not as the rest: who may not publish is to know it.
  call('PUBLISH', P .. ':c:' .. me, 'e 0')
  return { 'open' }
end

-- ARGV[6]: what is told on the channel, so that it is seen to work. Returns milliseconds to the end
-- of the next foreign lease (-1: none) and of the quarantine, then ref, token, and so on.
local function renew()
  local refused = refusal()
  if refused then return refused end
  local ttl = tonumber(call('HGET', info_of(me), 'ttl'))
  call('ZADD', S, int(now + ttl), me)
  call('HSET', info_of(me), 'graced', '0')
  call('HSET', M, 'renewed', int(now))
  tell(me, ARGV[6])
  local next_expiry = '-1'
  local sessions = call('ZRANGE', S, 0, 1, 'WITHSCORES')
  for i = #sessions - 1, 1, -2 do
    if sessions[i] ~= me then next_expiry = int(math.max(tonumber(sessions[i + 1]) - now, 0)) end
  end
  local reply = { '0', next_expiry, int(math.max(from - now, 0)) }
  local refs = call('HGETALL', refs_of(me))
  for i = 1, #refs, 2 do
    local row = read_row(refs[i + 1], refs[i] .. '|' .. me)
    reply[#reply + 1] = refs[i]
    reply[#reply + 1] = int(row and row.token or 0)
  end
  return reply
end

-- Ends sessions, as far as 100 requests allow, and grants what becomes free. Returns whether there
-- is more to do.
local function end_sessions(sessions)
  local touched, left = {}, 100
  for _, session in ipairs(sessions) do
    call('ZADD', S, 0, session)
    has_dead = true
    local refs = call('HGETALL', refs_of(session))
    for i = 1, math.min(#refs, left * 2), 2 do
      remove(refs[i + 1], refs[i] .. '|' .. session)
      call('HDEL', refs_of(session), refs[i])
      touched[refs[i + 1]] = true
      left = left - 1
    end
    if call('EXISTS', refs_of(session)) == 0 then
      call('ZREM', S, session)
      call('DEL', info_of(session))
    end
  end
  for key in pairs(touched) do process(key) end
  return left == 0 and '1' or '0'
end

-- After a quarantine, the caller's names are set going, too.
local function sweep()
  if now >= from and now < from + 2 * pause then
    for _, key in ipairs(call('HVALS', refs_of(me))) do process(key) end
  end
  local dead = call('ZRANGEBYSCORE', S, '-inf', int(now), 'LIMIT', 0, 10)
  local more = end_sessions(dead)
  return { (more == '1' or #dead == 10) and '1' or '0' }
end

local function close()
  if not call('ZSCORE', S, me) and call('EXISTS', refs_of(me)) == 0 then return { '0' } end
  return { end_sessions({ me }) }
end

local function hello()
  if not is_alive(me) then return { '-2' } end
  return { int(call('HINCRBY', info_of(me), 'conn', 1)) }
end

-- The keys of all names that somebody holds or waits for.
local function names()
  local seen, keys = {}, {}
  for _, session in ipairs(call('ZRANGEBYSCORE', S, '(' .. int(now), '+inf')) do
    for _, key in ipairs(call('HVALS', refs_of(session))) do
      if not seen[key] then keys[#keys + 1] = key end
      seen[key] = true
    end
  end
  return keys
end

-- ARGV[6]: the key of a name, or '' for all. Returns the time, then for each request: name, limit,
-- info, row.
local function query()
  local reply, infos = { int(now) }, {}
  for _, key in ipairs(ARGV[6] ~= '' and { ARGV[6] } or names()) do
    local its = call('HMGET', rows_of(key), 'name', 'limit')
    for _, member in ipairs(call('ZRANGE', queue_of(key), 0, -1)) do
      local _, session = split(member)
      if infos[session] == nil then
        infos[session] = is_alive(session) and call('HGET', info_of(session), 'info') or false
      end
      if infos[session] then
        local n = #reply
        reply[n + 1], reply[n + 2], reply[n + 3] = its[1], its[2] or '0', infos[session]
        reply[n + 4] = call('HGET', rows_of(key), member)
      end
    end
  end
  return reply
end

-- ARGV[6]: the key of a name.
local function marked()
  local till = call('ZSCORE', MARKS, ARGV[6])
  return { till and tonumber(till) > now and '1' or '0' }
end

-- What kind of server this is, asked where the keys are.
if command == 'examine' then
  return { call('INFO', 'server'), call('INFO', 'memory'), call('INFO', 'replication') }
end
local failure = awake()
if failure then return failure end

local reply
if command == 'step' then reply = refusal() or step()
elseif command == 'renew' then reply = renew()
elseif command == 'sweep' then reply = sweep()
elseif command == 'open' then reply = open()
elseif command == 'hello' then reply = hello()
elseif command == 'close' then reply = close()
elseif command == 'query' then reply = query()
elseif command == 'marked' then reply = marked()
end
for _, what in ipairs(news) do redis.pcall('PUBLISH', what[1], what[2]) end
return reply
