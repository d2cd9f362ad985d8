-- The slow path of a step, whose input and output are those of step_fast.lua.
--
--   op       kind (x, d, r, i, t), ref, key; of an end: keep; of a publication: data; of a request:
--            group, most, mode, weight, priority, label, limit, name

function F.parse_operation(text)
  local kind, ref, keep, key = string.match(text, '^(x)(%d+) (%d+) ?d?\n(.*)$')
  if kind then return { kind = kind, ref = ref, keep = tonumber(keep), key = key, group = '0' } end
  local its_ref, its_key, data = string.match(text, '^d(%d+)\n([^\n]*)\n(.*)$')
  if its_ref then return { kind = 'd', ref = its_ref, key = its_key, data = data, group = '0' } end
  local op, most, weight, limit = {}, nil, nil, nil
  op.kind, op.ref, op.group, most, op.key, op.mode, weight, op.priority, op.label, limit, op.name =
    string.match(text, '^(%a)(%d+) (%d+) (%S+)\n([^\n]*)\n(%a) (%d+)\n(%S+) ([^\n]*)\n(%d*)\n(.*)$')
  op.most, op.weight, op.limit = tonumber(most), tonumber(weight), tonumber(limit)
  return op
end

function F.parse_operations()
  local ops = {}
  for i = 8, #ARGV do ops[#ops + 1] = F.parse_operation(ARGV[i]) end
  return ops
end

-- Returns the reply if the caller's session cannot act; otherwise reads the session into "my". If
-- the step came over the session's present link, "my" has only "step".
function F.check_session()
  local current, step, till = unpack(my_fields, 1, 3)
  if current == link and till and till - now > 0 then
    my = { step = step }
    return
  end
  if not F.is_alive(me) then return { '-2' } end
  local stored = call('HMGET', INFO, 'conn', 'ttl', 'step', 'kept')
  -- Somebody deleted the session's hash, so it is unknown what the session had.
  if not stored[2] then return { '-2' } end
  if stored[1] ~= number then return { '-5' } end
  my = { ttl = tonumber(stored[2]), step = stored[3], kept = tonumber(stored[4] or 0) }
end

-- The reply to a step that is not the next one (R1); nil if it may be executed again.
function F.reply_to_old_step(is_repeatable)
  if tonumber(ARGV[6]) > tonumber(my.step or 0) then return { '-8' } end
  if is_repeatable then return nil end
  local text = call('HGET', INFO, tostring(ARGV[6] % WINDOW)) or ''
  if string.match(text, '^%d+') ~= ARGV[6] then return { '-5' } end
  local codes = {}
  for code in string.gmatch(text, '\n([^\n]+)') do codes[#codes + 1] = code end
  return codes
end

-- Whether a code is negative, or an error.
function F.is_refused(code) return (tonumber(code) or -1) < 0 end

function F.execute(op)
  if op.kind == 'x' then return F.release_or_abort(op.ref, op.key, op.keep) end
  if op.kind == 'd' then return F.publish(op) end
  if op.kind == 't' then return F.steal(op) end
  return F.request(op, op.kind == 'r')
end

-- If somebody else wrote to the keys of a name, an operation on the name raises an error. For the
-- first operation the whole step fails. A later request returns the error as its code; a later end
-- counts as ended (-4, or -6 if it should mark the name).
function F.try_to_execute(op, is_first)
  local is_done, code = pcall(F.execute, op)
  if is_done then return code end
  if is_first then error(code, 0) end
  if op.kind == 'x' then return op.keep > 0 and '-6' or '-4' end
  local text = type(code) == 'table' and code.err or tostring(code)
  return 'e' .. string.gsub(text, '\n', ' ')
end

-- Executes the operations that have no replies in "codes" yet.
function F.execute_all(ops, codes)
  local first = 1
  for i = #codes + 1, #ops do
    local op, last = ops[i], ops[i - 1]
    local is_member = last and op.group ~= '0' and op.group == last.group
    if not is_member then first = i end
    if op.kind == 'i' and is_member and F.is_refused(codes[i - 1]) then
      codes[i] = '-1'
    else
      codes[i] = F.try_to_execute(op, i == 1)
      if op.kind == 'i' and F.is_refused(codes[i]) then
        -- A group gets all its locks or none, so the locks that were just granted are released.
        for j = first, i - 1 do
          F.release_or_abort(ops[j].ref, ops[j].key, 0)
          codes[j] = '-1'
        end
      end
    end
  end
end

-- Continues a step after the operations of the fast path, whose replies are in "codes".
function F.continue_step()
  local is_begun = #codes > 0
  local failure = F.check_epoch()
  if failure then return failure end
  local refused = F.check_session()
  if refused then return refused end
  local ops = F.parse_operations()
  is_repeatable = true
  for _, op in ipairs(ops) do is_repeatable = is_repeatable and op.kind == 'x' and op.keep == 0 end
  local is_new = is_begun or is_next
  local answer = not is_new and F.reply_to_old_step(is_repeatable)
  if answer then return answer end
  F.execute_all(ops, codes)
  is_done = is_new
  return codes
end
