-- The adapter runs this first, to refuse a server that is unfit for locks.
--
--   Output   INFO server, memory, replication
if ARGV[1] == 'examine' then
  local call = redis.call
  return { call('INFO', 'server'), call('INFO', 'memory'), call('INFO', 'replication') }
end
