-- The queue of a name ("it": names.lua).

-- Writes the sums over a name's holders, and the fields and values that follow "it".
function F.write_sums(it, ...)
  call('HSET', F.rows_key(it.key), 'held', it.held, 'units', F.int(it.units),
    'alone', it.alone and 1 or 0, ...)
end

-- Rebuilds a queue from its rows, because somebody deleted the queue by hand.
function F.rebuild_queue(it)
  local rows, fields = {}, call('HGETALL', F.rows_key(it.key))
  for i = 1, #fields, 2 do
    local is_row = string.find(fields[i], '|', 1, true)
    if is_row then rows[#rows + 1] = F.parse_row(fields[i], fields[i + 1]) end
  end
  it.count, it.held, it.units, it.alone = #rows, 0, 0, false
  if it.count == 0 then return F.free_name(it) end
  for _, row in ipairs(rows) do
    local rank = row.token > 0 and -math.huge or 0 - row.priority
    call('ZADD', F.queue_key(it.key), F.int(rank), F.entry_of(row))
    if row.token > 0 then count_holder(it, row) end
  end
  F.expire_name_later(it.key)
  F.write_sums(it)
end

-- Removes a lock or request from a name and returns its row. "entry" is its entry in the queue, if
-- the caller knows that. The session's list changes last: if the server refuses an earlier command,
-- the next renewal still lists the request, and the session ends the request again.
function F.remove(it, member, entry)
  local row = F.remove_from_name(it, member, entry)
  local ref, session = F.split_member(member)
  call('HDEL', F.info_key(session), 'r' .. ref, 'd' .. ref)
  return row
end

-- Like "F.remove", but leaves the session's list as it is.
function F.remove_from_name(it, member, entry)
  if it.one then return F.remove_single(it, member) end
  -- If somebody deleted the name's key by hand, its queue and rows are left: this deletes them.
  if it.count == 0 then return F.free_name(it) end
  local row = F.read_row(it.key, member)
  entry = entry or row and F.entry_of(row)
  if entry then it.count = it.count - call('ZREM', F.queue_key(it.key), entry) end
  local was_held = row and row.token > 0
  if was_held then it.held, it.units, it.alone = it.held - 1, it.units - row.weight, false end
  if it.count == 0 then
    F.free_name(it)
  elseif row then
    call('HDEL', F.rows_key(it.key), member)
    if was_held then F.write_sums(it) end
  end
  return row
end

-- Frees a name whose single lock is the member's; returns the row, or nil if it is another's.
function F.remove_single(it, member)
  local one = it.one
  if one.member ~= member then return nil end
  F.free_name(it)
  it.count, it.held, it.units, it.alone = 0, 0, 0, false
  return one
end

-- The entries of a queue from one index to another; for a single lock, its entry.
function F.entries(it, first, last)
  if it.one then return { F.entry_of(it.one) } end
  return call('ZRANGE', F.queue_key(it.key), first, last)
end

-- Reaps the requests of expired sessions among the first 100. Returns whether there were any.
function F.reap(it)
  if it.count == 0 then return false end
  if not F.are_some_expired() then
    local _, first = F.split_member(F.member_of(F.entries(it, 0, 0)[1]))
    -- If this request's session is not listed, somebody deleted the list and count of sessions.
    if first == me or call('ZSCORE', S, first) then return false end
    F.handle_missing_sessions()
  end
  local found, is_alive = false, {}
  for _, entry in ipairs(F.entries(it, 0, 99)) do
    local member = F.member_of(entry)
    local _, session = F.split_member(member)
    if is_alive[session] == nil then is_alive[session] = F.is_alive(session) or false end
    if not is_alive[session] then
      if call('ZSCORE', S, session) then F.expire(session) end
      F.remove(it, member, entry)
      found = true
    end
  end
  return found
end

-- Returns the row of the first waiter, with its rank; nil if no request waits.
function F.first_waiting(it)
  while it.held < it.count do
    local first = call('ZRANGE', F.queue_key(it.key), it.held, it.held, 'WITHSCORES')
    local member = F.member_of(first[1])
    local row = F.read_row(it.key, member)
    if row then
      row.rank = tonumber(first[2])
      return row
    end
    -- Somebody deleted the row by hand.
    F.remove(it, member, first[1])
  end
end

-- Gives a name a queue. The single lock, if there is one, becomes the first member.
function F.make_queue(it)
  local one = it.one
  it.one = nil
  F.write_name_key(it.key, QUEUED)
  -- Somebody may have deleted the name's key by hand and left these keys.
  call('DEL', F.queue_key(it.key), F.rows_key(it.key))
  if not one then return end
  call('ZADD', F.queue_key(it.key), 0, F.entry_of(one))
  F.write_sums(it, one.member, F.queued_row_text(one))
end

-- Moves the holders ahead of every waiter, so that a waiter of "rank" cannot pass them.
function F.move_holders_ahead_of(it, rank)
  if it.held == 0 then return end
  local entries = call('ZRANGE', F.queue_key(it.key), 0, it.held - 1, 'WITHSCORES')
  for i = 1, #entries, 2 do
    if tonumber(entries[i + 1]) > rank then
      call('ZADD', F.queue_key(it.key), F.int(-math.huge), entries[i])
    end
  end
end

-- Adds a lock or a waiter to a name and to the caller's session.
function F.insert(it, op, row, ticket)
  F.add_to_session(op)
  if it.count == 0 and row.token > 0 then
    F.write_single(it, op, row)
    return
  end
  if it.one or it.count == 0 then F.make_queue(it) end
  local rank = row.token > 0 and math.min(row.rank, 0) or row.rank
  if row.token == 0 and rank < 0 then F.move_holders_ahead_of(it, rank) end
  row.ticket, row.is_queued = F.ticket_text(ticket), true
  call('ZADD', F.queue_key(op.key), F.int(rank), F.entry_of(row))
  it.count = it.count + 1
  local text = F.queued_row_text(row)
  if it.limit then F.write_sums(it, row.member, text, 'name', op.name, 'limit', F.int(it.limit))
  else F.write_sums(it, row.member, text, 'name', op.name) end
  -- The keys of a name expire together, and a new queue does not expire yet.
  if idle > 0 and call('PTTL', F.queue_key(op.key)) < idle * 7 / 8 then
    F.expire_name_later(op.key)
  end
end
