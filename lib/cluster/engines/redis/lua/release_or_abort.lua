-- Section 4.2 "release the lock" and 4.3 "abort the request", which do the same here:
-- https://www.w3.org/TR/2023/WD-web-locks-20230105/#release-the-lock
--
--   Input    ref, key of the name ('': unknown), milliseconds: how long to mark the name; 0 for no
--            mark
--   Output   its code (step_fast.lua)

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
