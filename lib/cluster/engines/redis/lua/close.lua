-- Ends the caller's session.
--
--   Output   whether there is more to do: 1, 0

function F.close()
  if not F.is_known(me) then return { '0' } end
  return { F.end_sessions({ me }) }
end
