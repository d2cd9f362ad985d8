-- Begins a session.
--
--   Input    5 life (the epoch that the client has seen), 6 token (the greatest that it has seen),
--            7 ttl, 8 info, 9 client, 10 version, 11 shards, 12 in_shard
--   Output   open, epoch, ms to the end of the quarantine; or 'version' or 'shards' and the value
--            that the bucket has

-- Returns the bucket's version or shards if they differ from the caller's, otherwise nil.
function F.find_mismatch()
  local stored = call('HMGET', M, 'version', 'shards')
  if stored[1] and stored[1] ~= ARGV[10] then return { 'version', stored[1] } end
  if stored[2] and stored[2] ~= ARGV[11] then return { 'shards', stored[2] } end
end

-- The "link" (ARGV[3]) with which a session's steps take the fast path; '' if they must not,
-- because the fast path does not count replicas.
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

-- If the user lacks permission for a command, Redis refuses that command in the middle of a call. A
-- session that cannot end its own requests must not live on, so opening and renewing it fail. Redis
-- 6.2 cannot check permissions in advance. Returns the error, or nil.
function F.check_rights()
  if not redis.acl_check_cmd then return nil end
  local commands = {
    { 'DEL', S }, { 'HDEL', S, me }, { 'HSET', S, me, '' }, { 'SET', S, '' },
    { 'ZADD', S, '0', me }, { 'ZREM', S, me },
  }
  for _, it in ipairs(commands) do
    if not redis.acl_check_cmd(unpack(it)) then
      return redis.error_reply('NOPERM this user has no permissions to run ' .. it[1])
    end
  end
end

function F.open()
  local refused = F.check_rights()
  if refused then return refused end
  local ttl, info, client, version, shards =
    tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[10], ARGV[11]
  if F.count_sessions(0) then F.handle_missing_sessions() end
  F.compare_seen(ARGV[5], tonumber(ARGV[6]))
  F.set_lease(me, now + ttl, '0')
  call('HSET', INFO, 'conn', number, 'link', F.link_for_steps(number), 'ttl', F.int(ttl),
    'pause', string.match(link, ' (%d+)'), 'info', info, 'client', client,
    'kept', idle > 0 and F.int(now) or '0', 'in_shard', ARGV[12])
  call('HSET', M, 'version', version, 'shards', shards, 'pause', F.int(known.longest),
    'renewed', F.int(now))
  F.count_sessions(1)
  F.shorten_quarantines()
  F.expire_key_later(S)
  F.expire_key_later(INFO)
  -- This is not a pcall, because a user without permission to publish must get the error.
  call('PUBLISH', P .. ':c:' .. me, 'e 0')
  return { 'open', epoch, F.int(math.max(from - now, 0)) }
end
