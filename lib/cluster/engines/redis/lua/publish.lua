-- Publishes data with a lock of the caller's session, or removes it. The data is in the hash of the
-- session, because older versions of this library read rows. If such a version steals the lock, the
-- data is left there until the next renewal.
--
--   Input    op (step_slow.lua)
--   Output   its code (step_fast.lua)

function F.publish(op)
  local row = F.find_row(op.key, op.ref .. '|' .. me)
  if not row or row.token == 0 then return '-6' end
  if op.data == '' then call('HDEL', INFO, 'd' .. op.ref)
  else call('HSET', INFO, 'd' .. op.ref, op.data) end
  return '-4'
end
