-- Sessions: their requests and leases, and what is known about sessions that are gone.

-- Adds a request to its session. This must happen before the request is added to its name: if Redis
-- refuses this write, no name may have a request without an owner.
function F.add_to_session(op)
  call('HSET', INFO, 'r' .. op.ref, op.key)
end

-- The requests of a session in a flat list: ref, key of the name, ref, key of the name, … And the
-- refs of its data.
function F.refs_of(session)
  local refs, datas, its = {}, {}, call('HGETALL', F.info_key(session))
  for i = 1, #its, 2 do
    local kind, ref = string.match(its[i], '^([dr])(%d+)$')
    if kind == 'r' then refs[#refs + 1], refs[#refs + 2] = ref, its[i + 1]
    elseif kind then datas[#datas + 1] = ref end
  end
  return refs, datas
end

-- Sets the end of a lease, which is stored in two places and written only here and in "F.expire".
function F.set_lease(session, till, graced)
  call('ZADD', S, F.int(till), session)
  call('HSET', F.info_key(session), 'till', F.int(till), 'graced', graced)
end

-- Expires a session for good.
function F.expire(session)
  call('ZADD', S, 0, session)
  call('HSET', F.info_key(session), 'till', '0')
end

function F.is_alive(session)
  local expires = call('ZSCORE', S, session)
  return expires and tonumber(expires) > now
end

-- Whether a session has keys, even if it has expired.
function F.is_known(session)
  return call('ZSCORE', S, session) or call('EXISTS', F.info_key(session)) == 1
end

local has_expired
-- Whether names may have requests of sessions that have expired or are missing.
function F.are_some_expired()
  if has_expired == nil then
    has_expired = now < known.missed or call('ZCOUNT', S, '-inf', F.int(now)) > 0
  end
  return has_expired
end

-- Handles sessions whose keys expired or were deleted by hand while names still have their
-- requests. Such a session may still believe that it holds locks, so a new epoch must begin.
local ALMOST_FOR_EVER = 604800000
function F.handle_missing_sessions()
  known.missed, has_expired = now + (idle > 0 and idle or ALMOST_FOR_EVER), nil
  call('HSET', M, 'missed', F.int(known.missed))
  F.begin_epoch(pause, last_number)
end

-- If the clock jumped, or nobody could renew for half a lease, sessions get another whole lease. A
-- late session gets it only once.
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
-- renewed on a former primary whose clients come back. So the quarantine that it needs still counts
-- for its own length after the session expired.
function F.longest_lapsed(text)
  local longest = 0
  for needed, till in string.gmatch(text or '', '(%d+) (%d+)') do
    if tonumber(till) > now then longest = math.max(longest, tonumber(needed)) end
  end
  return longest
end

-- Records the quarantines that expired sessions need. "ended" has the pauses of sessions that just
-- expired, and until when each pause counts.
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
