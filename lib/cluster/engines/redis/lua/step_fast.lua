-- Executes the operations of a session in their order, exactly once.
--
--   Input    5 run_id of the connection's server ('': unknown; then even a step that contains only
--            ends checks whether the session is dead), 6 number of the step, 7 number of the
--            unanswered step before it (0: none), then the operations. An end is
--              x<ref> <keep> [d]
--              <key of the name; '' if unknown>
--            where "d" says that data was published with the lock. A publication is
--              d<ref>
--              <key of the name>
--              <JSON; '' for none>
--            and a request (r), ifAvailable (i) or steal (t) is
--              <kind><ref> <group> <maxPending>
--              <key of the name>
--              <mode: x, s, or p if it passes> <weight>
--              <priority> <label>
--              <limit; '' unless the mode is s>
--              <name>
--   Output   for the whole step -2, -5, or -8 (the step before it is not the last executed one); or
--            a list of codes, one for each operation (a single code is returned without a list):
--              above 0   the token of a grant
--              0         the request waits
--              -1        not available
--              -3        too many requests wait
--              -4        ended, or published
--              -6        ended, but not marked, or not published, because the lock was not held
--              -9        the request has passed
--              -10 - n   the name's limit is n
--              e<text>   an error
--
-- This is the fast path of a step. It handles the usual operations with as few commands as
-- possible: requests of free names, and ends of locks that nobody waits for, while server and
-- session are as before. At any other operation, the slow path continues.

if command == 'step' then
  my_fields = call('HMGET', INFO, 'link', 'step', 'till')
  local its, run, i, last, has_only_ends = my_fields, ARGV[5], 8, #ARGV, true
  is_next = ARGV[6] - (its[2] or 0) > 0 and (ARGV[7] == '0' or ARGV[7] == its[2])
  -- Whether "F.check_epoch" and "F.check_session" would have nothing to do.
  local is_plain = run ~= '' and its[1] == link and is_next
  -- A step that contains only ends needs neither a live session nor a known server, because an end
  -- is always correct. With an empty run_id the caller asks to check whether the session is dead.
  for k = i, last do has_only_ends = has_only_ends and string.byte(ARGV[k]) == 120 end
  if is_plain and not has_only_ends then
    time = call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
    local stored = call('HMGET', M, 'run', 'from', 'tok')
    last_number = tonumber(stored[3] or 0)
    is_plain = stored[1] == run and stored[2] - now <= 0 and last_number >= 10000000
      and its[3] and its[3] - now > 0
  end
  -- Refs of ended requests, and keys of names that become free.
  local ended, gone = { nil }, { nil }
  local at
  while is_plain and i <= last do
    local op = ARGV[i]
    if string.byte(op) == 120 then
      local ref, key = string.match(op, '^x(%d+) 0\n(.+)$')
      if not ref then break end
      local own, mine = P .. ':n:' .. key, ref .. '|' .. me .. ' '
      -- Somebody may have written another type to the key.
      local one = redis.pcall('GET', own)
      if type(one) ~= 'string' or string.sub(one, 1, #mine) ~= mine then break end
      local n = #ended + 1
      ended[n], gone[n], codes[#codes + 1] = 'r' .. ref, own, '-4'
    else
      -- The pattern does not match members of groups, or requests that pass.
      local ref, key, mode, rest =
        string.match(op, '^[ir](%d+) 0 %S+\n([^\n]+)\n([xs] %d+)\n(.*)$')
      if not ref then break end
      -- Section 4.1 "request a lock" for a free name: SET NX grants it, so
      -- process_the_lock_request_queue is not needed.
      -- https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock
      local token, n = last_number + 1, #fields
      -- '%d' has 32 bits on some servers, and '%.0f' takes as long as a command, so the number is
      -- formatted in two halves.
      local text = string.format('%d%07d', math.floor(token / 10000000), token % 10000000)
      -- This is "now" as text; concatenating is faster than formatting.
      at = at or time[1] .. string.sub('00000' .. time[2], -6, -4)
      -- This is the format of "F.write_single".
      local own, one = P .. ':n:' .. key, ref .. '|' .. me .. ' ' .. mode .. ' ' .. text .. ' '
        .. at .. ' ' .. at .. ' ' .. rest
      local set = idle == '0' and redis.pcall('SET', own, one, 'NX')
        or idle ~= '0' and redis.pcall('SET', own, one, 'NX', 'PX', idle)
      -- Either the name is in use, or Redis refuses writes, and the slow path will find out why.
      if not set or set.err then break end
      last_number, last_text, is_repeatable = token, text, false
      fields[n + 1], fields[n + 2], codes[#codes + 1] = 'r' .. ref, key, text
    end
    i = i + 1
  end
  is_done = is_plain and i > last
  -- If a request and its end are both in this step, the request must be written before its end.
  if #fields > 1 and (ended[1] or not is_done) then
    call('HSET', unpack(fields))
    fields = { INFO }
  end
  if ended[1] then
    call('DEL', unpack(gone))
    call('HDEL', INFO, unpack(ended))
  end
end
