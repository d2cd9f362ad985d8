-- Reaps expired sessions. After a quarantine it also processes the caller's names.
--
--   Output   whether there is more to do: 1, 0

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
