-- Extends the lease of a session for its keeper, which has a connection of its own, maybe to
-- another server. So it begins no epoch, and finds a session dead only in the session's own epoch.
--
--   Input    5 life, 6 token (as in open.lua): what the session had seen at its last renewal
--   Output   1: extended; 0: not extended, since the server is in another epoch; or -2

function F.extend()
  local refused = F.check_rights()
  if refused then return refused end
  -- Grants of the session may be missing in an epoch that it has not seen.
  if epoch ~= ARGV[5] or tonumber(ARGV[6]) > last_number then return { '0' } end
  local ttl = F.is_alive(me) and tonumber(call('HGET', INFO, 'ttl'))
  if not ttl then return { '-2' } end
  F.set_lease(me, now + ttl, '0')
  call('HSET', M, 'renewed', F.int(now))
  return { '1' }
end
