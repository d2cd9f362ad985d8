-- Takes a name from its holders, whose sessions are notified.
--
--   Input    op (step_slow.lua)
--   Output   its code (step_fast.lua)

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
