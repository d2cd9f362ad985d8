-- Extends the lease of a session.
--
--   Input    5 life, 6 token (as in open.lua), 7 a message to publish on the session's channel, to
--            test it, then the refs of thefts that the caller knows
--   Output   -2 or -5, or a list:
--              0
--              ms to the next end of another session's lease; -1 for none
--              ms to the end of the quarantine; 0 for none
--              epoch
--              number of the last recorded step; 0 for none
--            and then two entries for each of these:
--              a request of the session: ref, token (0: it waits)
--              a lock that was stolen from it: ref, s<client id of the thief>
--              a request of it that has passed: ref, s

-- Sets the expiries of the session's keys again if they were last set long ago.
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
  local refused = F.check_rights() or F.check_session()
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
  local refs, datas = F.refs_of(me)
  local is_there = {}
  for i = 1, #refs, 2 do is_there[refs[i]] = true end
  for _, ref in ipairs(datas) do
    if not is_there[ref] then call('HDEL', INFO, 'd' .. ref) end
  end
  for i = 1, #refs, 2 do
    -- If somebody overwrote the keys of a name, only the requests of this name are lost.
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
