-- The epoch of the server's lock state, and the quarantine at its beginning.

-- The value of a field of INFO; nil if it is missing.
function F.field(text, name) return string.match(text, name .. ':([^\r\n]*)') end

-- The last hundred epochs are kept as digests.
function F.digest(text) return string.sub(redis.sha1hex(text), 1, 16) .. ' ' end
function F.epochs()
  known.epochs = known.epochs or call('HGET', M, 'lives') or ''
  return known.epochs
end
-- Adds an epoch to the known ones, which "F.begin_epoch" then writes.
function F.add_epoch(text) known.epochs = string.sub(F.digest(text) .. F.epochs(), 1, 1700) end

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
-- that it was promoted, but not when, so the first bucket that is opened on it records the time.
-- Each promotion changes the replication id, so the record contains this id.
function F.time_as_primary(replication)
  if KEYS[2] then return 0 end
  local key = string.match(P, '^[^{]*') .. '{wl:}server'
  local id = known.run .. ' ' .. (F.field(replication, 'master_replid') or '')
  local its = redis.pcall('HMGET', key, 'id', 'since')
  -- The user may lack permission for this key.
  if its.err then return 0 end
  if its[1] ~= id or not tonumber(its[2]) then
    redis.pcall('HSET', key, 'id', id, 'since', F.int(now))
    its[2] = now
  end
  if idle > 0 then redis.pcall('PEXPIRE', key, F.int(idle)) end
  return now - its[2]
end

-- The length of a new bucket's quarantine: "pause" minus the time since the start or promotion.
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

-- Runs before each command except "examine", and before the slow path of a step. It begins a new
-- epoch if the server has changed, and returns an error or nothing.
function F.check_epoch()
  local stored = call('HMGET', M, 'run', 'from', 'pause', 'tok', 'renewed', 'life', 'sessions',
    'missed', 'length', 'lapsed')
  -- In a bucket without an epoch, these commands begin none.
  local is_looking = command == 'query' or command == 'marked' or command == 'extend'
    or command == 'close' and not F.is_known(me)
  known.missed = tonumber(stored[8] or 0)
  if not stored[1] and is_looking then return end
  -- A connection always leads to the same server, so a step need not read the run_id again.
  local is_same = command == 'step' and ARGV[5] ~= '' and ARGV[5] == stored[1]
  local server = is_same and '' or call('INFO', 'server')
  known.run = is_same and stored[1] or F.field(server, 'run_id') or ''
  last_number = math.max(last_number, tonumber(stored[4] or 0))
  known.sessions = tonumber(stored[7] or 0)
  if strict > 0 then
    local good = F.field(call('INFO', 'replication'), 'min_slaves_good_slaves')
    if tonumber(good or 0) < strict then
      return redis.error_reply('NOREPLICAS not all replicas are attached')
    end
  end
  known.longest = math.max(pause, tonumber(stored[3] or 0))
  pause = math.max(known.longest, F.longest_lapsed(stored[10]))
  known.length = math.max(pause, tonumber(stored[9] or 0))
  from, epoch = tonumber(stored[2] or 0), stored[6] or ''
  -- A clock that was set back must not lengthen the quarantine.
  local is_too_long = from > now + known.length
  if is_too_long then from = now + known.length end
  if stored[1] ~= known.run then
    local had_epoch = stored[1] or command ~= 'open'
    F.begin_epoch(had_epoch and pause or F.first_quarantine(server), last_number)
    return
  end
  if is_too_long then call('HSET', M, 'from', F.int(from)) end
  local renewed = tonumber(stored[5] or 0)
  -- Renewals check the clock; a step needs to do so only if a session seems to have expired.
  if command == 'step' and renewed <= now and not F.are_some_expired() then return end
  -- If nobody has renewed for most of "idle", some keys of the bucket may have expired already:
  -- their expiries differ by up to an eighth of "idle".
  if idle > 0 and known.sessions > 0 and renewed < now - idle * 3 / 4 then
    return F.handle_missing_sessions()
  end
  F.extend_late_leases(renewed)
end
