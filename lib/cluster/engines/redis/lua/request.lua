-- Section 4.1 "request a lock": https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock
--
--   Input    op (step_slow.lua), waits: whether it may wait
--   Output   its code (step_fast.lua)

function F.request(op, waits)
  local it = F.read_name(op.key)
  if op.mode == 's' then
    if it.limit and it.limit ~= op.limit then return F.int(-10 - it.limit) end
    it.limit = op.limit
  end
  return F.enter(it, op, waits)
end

-- Grants, queues or refuses a request, according to the name's queue. Returns its code.
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

-- Removes a request from a name, and notifies the request's session. "thief" is the client id of
-- the thief, or '' if the request passes.
function F.remove_and_notify(it, member, entry, thief)
  F.remove(it, member, entry)
  local ref, session = F.split_member(member)
  -- An error here (if the key has another type) must not stop the step halfway.
  redis.pcall('HSET', F.thefts_key(session), ref, thief)
  F.expire_key_later(F.thefts_key(session))
  F.add_message(session, 's ' .. ref .. ' ' .. thief)
end

-- Ends a request that passes, and notifies its session.
function F.pass(it, row, mine)
  local limit = it.limit
  F.remove_and_notify(it, row.member, F.entry_of(row), '')
  -- Removing the last request clears the limit, which the entering request has just set.
  if mine then it.limit = limit end
end
