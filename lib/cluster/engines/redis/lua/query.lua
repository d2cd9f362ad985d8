-- Section 4.5 "snapshot the lock state":
-- https://www.w3.org/TR/2023/WD-web-locks-20230105/#snapshot-the-lock-state
--
--   Input    5 key of a name, or '' for all, 6 'held' for only the locks of the name, or ''
--   Output   the time, then for each request: ref, name, limit, info, row, data ('' for none)

-- The keys of all names that live sessions hold or wait for.
function F.names_in_use()
  local seen, keys = {}, {}
  for _, session in ipairs(call('ZRANGEBYSCORE', S, '(' .. F.int(now), '+inf')) do
    local refs = F.refs_of(session)
    for i = 2, #refs, 2 do
      if not seen[refs[i]] then keys[#keys + 1] = refs[i] end
      seen[refs[i]] = true
    end
  end
  return keys
end

-- The entries of a name's queue (or of its holders) or its single row, then the name and the limit.
function F.entries_and_name(key, which)
  local own, limit, name = F.read_name_key(key)
  if own ~= QUEUED then return { own or nil }, name, limit end
  local its = call('HMGET', F.rows_key(key), 'name', 'limit', 'held')
  local held = tonumber(its[3] or 0)
  if which == 'held' and held == 0 then return {} end
  return call('ZRANGE', F.queue_key(key), 0, which == 'held' and held - 1 or -1), its[1], its[2]
end

function F.query()
  local reply, infos = { F.int(now) }, {}
  for _, key in ipairs(ARGV[5] ~= '' and { ARGV[5] } or F.names_in_use()) do
    local is_read, all, name, limit = pcall(F.entries_and_name, key, ARGV[6])
    for _, one in ipairs(is_read and all or {}) do
      local member = one.member or F.member_of(one)
      local ref, session = F.split_member(member)
      if infos[session] == nil then
        infos[session] = F.is_alive(session) and call('HGET', F.info_key(session), 'info') or false
      end
      local row = infos[session] and (one.member and one or F.read_row(key, member))
      if row then
        local n = #reply
        reply[n + 1], reply[n + 2], reply[n + 3] = ref, name, limit or '0'
        reply[n + 4], reply[n + 5] = infos[session], F.row_text(row)
        reply[n + 6] = row.token > 0 and call('HGET', F.info_key(session), 'd' .. ref) or ''
      end
    end
  end
  return reply
end
