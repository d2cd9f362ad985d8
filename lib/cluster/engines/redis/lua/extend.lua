-- Extends the lease of a session for its keeper, which has a connection of its own.
--
--   Input    5 life, 6 token (as in open.lua): what the session had seen at its last renewal
--   Output   1: extended; 0: not extended, since another epoch has begun; or -2

function F.extend()
  F.compare_seen(ARGV[5], tonumber(ARGV[6]))
  local refused = F.check_rights()
  if refused then return refused end
  local ttl = F.is_alive(me) and tonumber(call('HGET', INFO, 'ttl'))
  if not ttl then return { '-2' } end
  -- Grants of the session may be missing in an epoch that it has not seen.
  if epoch ~= ARGV[5] then return { '0' } end
  F.set_lease(me, now + ttl, '0')
  call('HSET', M, 'renewed', F.int(now))
  return { '1' }
end
