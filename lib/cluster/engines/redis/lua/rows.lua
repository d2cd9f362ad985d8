-- Rows: the requests of a name. A member is ref|session, and an entry of a queue is ticket|member.
--
--   row                member, ticket (text), mode, weight, token (0: it waits), asked, granted,
--                      priority (text), label
--     rank             only of a waiter
--     is_queued        whether the row is stored in the keys, as that of a waiter or of a holder
--     passes           whether the request leaves the queue instead of being granted

function F.row_text(row)
  return table.concat({ row.mode, F.int(row.weight), F.int(row.token), F.int(row.asked),
    F.int(row.granted), row.priority, row.label }, ' ')
end

function F.new_row(op)
  return { member = op.ref .. '|' .. me, mode = op.mode, weight = op.weight, token = 0,
    asked = now, granted = 0, priority = op.priority, label = op.label }
end

function F.split_member(member)
  local bar = string.find(member, '|', 1, true)
  return string.sub(member, 1, bar - 1), string.sub(member, bar + 1)
end

function F.ticket_text(n)
  return string.format('%09d%07d', math.floor(n / 10000000), n % 10000000)
end
function F.entry_of(row) return row.ticket .. '|' .. row.member end
function F.member_of(entry) return string.sub(entry, 18) end

function F.queued_row_text(row) return row.ticket .. ' ' .. F.row_text(row) end

-- Parses the row of a member, or of a single lock (member nil). A single lock was granted at once,
-- so its token is its ticket.
function F.parse_row(member, text)
  if not text then return nil end
  local first, mode, weight, token, asked, granted, priority, label =
    string.match(text, '^(%S+) (%a) (%d+) (%d+) (%d+) (%d+) (%-?%d+) (.*)$')
  return { member = member or first, ticket = member and first or F.ticket_text(token), mode = mode,
    weight = tonumber(weight), token = tonumber(token), asked = tonumber(asked),
    granted = tonumber(granted), priority = priority, label = label, is_queued = true }
end
