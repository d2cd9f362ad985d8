-- Checks whether a name is marked.
--
--   Input    5 key of the name
--   Output   1, 0

function F.marked()
  local till = call('ZSCORE', MARKS, ARGV[5])
  return { till and tonumber(till) > now and '1' or '0' }
end
