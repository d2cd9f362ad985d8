-- Begins a new connection of a session.
--
--   Input    5 life, 6 token (as in open.lua), 7 in_shard
--   Output   the number of the connection; or -2

function F.hello()
  F.compare_seen(ARGV[5], tonumber(ARGV[6]))
  if not F.is_alive(me) or call('HEXISTS', INFO, 'ttl') == 0 then return { '-2' } end
  local connection = F.int(call('HINCRBY', INFO, 'conn', 1))
  call('HSET', INFO, 'link', F.link_for_steps(connection), 'pause', string.match(link, ' (%d+)'),
    'in_shard', ARGV[7])
  call('HSET', M, 'pause', F.int(known.longest))
  return { connection }
end
