-- Functions for the names of keys, the format of numbers, messages and expiries.

local S = P .. ':s'
-- Formats a number in two halves, as step_fast.lua does. Negative, fractional and infinite numbers
-- are rare, and are formatted as a whole.
function F.int(n)
  if n < 0 or n % 1 ~= 0 then return string.format('%.0f', n) end
  if n < 10000000 then return string.format('%d', n) end
  return string.format('%d%07d', math.floor(n / 10000000), n % 10000000)
end

local MARKS, MARKERS = P .. ':k', P .. ':w'
function F.info_key(session) return P .. ':i:' .. session end
function F.thefts_key(session) return P .. ':t:' .. session end
function F.queue_key(key) return P .. ':q:' .. key end
function F.name_key(key) return P .. ':n:' .. key end
function F.rows_key(key) return P .. ':r:' .. key end

-- Publishes a message on the session's channel at the end of this call.
function F.add_message(session, what)
  messages = messages or {}
  messages[#messages + 1] = { session, what }
end

-- Makes a key expire long after all leases, or never on a server that evicts keys with an expiry.
function F.expire_key_later(key)
  if idle > 0 then call('PEXPIRE', key, F.int(idle)) else call('PERSIST', key) end
end

-- Makes a name's keys expire together, because a name without its first key counts as free.
function F.expire_name_later(key)
  local keys = { F.name_key(key), F.rows_key(key), F.queue_key(key) }
  for _, its in ipairs(keys) do F.expire_key_later(its) end
end
