-- The keys of names, and the state of a name for one call.
--
--   it                   the state of a name
--     key, limit         of the name; limit is nil if it has none
--     count              how many requests it has
--     held, units, alone   of its holders: how many, the sum of their weights, whether exclusive
--     one                the row of a single lock; nil if there is a queue, or no request

-- A name's key has this value if the name has a queue.
local QUEUED = 'q'

function F.write_name_key(key, text)
  if idle == 0 then call('SET', F.name_key(key), text)
  else call('SET', F.name_key(key), text, 'PX', F.int(idle)) end
end

-- Writes the key of a name whose only request is this lock.
function F.write_single(it, op, row)
  local limit = it.limit and F.int(it.limit) or ''
  F.write_name_key(op.key, row.member .. ' ' .. F.row_text(row) .. '\n' .. limit .. '\n' .. op.name)
end

-- Reads a name's key: row, limit and name of a single lock; nil if free; QUEUED if it has a queue.
-- Raises an error if another program wrote to the key.
function F.read_name_key(key)
  local own = call('GET', F.name_key(key))
  if not own or own == QUEUED then return own end
  local text, limit, name = string.match(own, '^(.*)\n(%d*)\n(.*)$')
  local row = F.parse_row(nil, text)
  if not row then
    local key_name = F.name_key(key)
    error('another program wrote to a key of a lock; it holds something else: ' .. key_name, 0)
  end
  return row, tonumber(limit), name
end

function F.read_row(key, member)
  return F.parse_row(member, call('HGET', F.rows_key(key), member))
end

-- The row of a session's request; nil if the request does not exist.
function F.find_row(key, member)
  local own = F.read_name_key(key)
  if own == QUEUED then return F.read_row(key, member) end
  return own and own.member == member and own or nil
end

-- Deletes all keys of a name; its state then has neither a lock nor a limit.
function F.free_name(it)
  call('DEL', F.name_key(it.key), F.rows_key(it.key), F.queue_key(it.key))
  it.one, it.limit = nil, nil
end

-- Reads a name. If it has requests of expired sessions, reaps them and then processes its queue.
function F.read_name(key)
  local it = { key = key, held = 0, units = 0, count = 0, alone = false }
  local own, limit = F.read_name_key(key)
  if own == QUEUED then
    local its = call('HMGET', F.rows_key(key), 'held', 'units', 'alone', 'limit')
    it.held, it.units = tonumber(its[1] or 0), tonumber(its[2] or 0)
    it.alone, it.limit = its[3] == '1', tonumber(its[4] or nil)
    it.count = call('ZCARD', F.queue_key(key))
    if it.count < it.held or it.count == 0 then F.rebuild_queue(it) end
  elseif own then
    it.one, it.count, it.limit = own, 1, limit
    count_holder(it, own)
  end
  local has_changed = false
  while F.reap(it) do has_changed = true end
  if has_changed then process_the_lock_request_queue(it) end
  return it
end
