-- Section 4.4 "process the lock request queue": grants waiters in their order until one does not
-- fit, and notifies them. step_fast.lua also grants free names.
-- https://www.w3.org/TR/2023/WD-web-locks-20230105/#process-the-lock-request-queue
--
--   Input    it (names.lua); mine: the caller's request, whose session is not notified. A request
--            that is not in the queue yet takes its turn by its rank, and the caller must write it
--   Output   mine.token, if the request is granted; or mine.passes

-- Draws a ticket or token, which this call stores when it ends.
local function next_number()
  last_number, is_counted = last_number + 1, true
  return last_number
end

local function count_holder(it, row)
  it.held, it.units, it.alone = it.held + 1, it.units + row.weight, row.mode == 'x'
end

local function process_the_lock_request_queue(it, mine)
  if now < from then return end
  -- Nothing is granted beside an exclusive lock.
  while it.held == 0 or not it.alone do
    -- The first waiter, or "mine" if no request waits.
    local row = it.held < it.count and F.first_waiting(it) or mine
    local is_mine_ahead = mine and row ~= mine and not mine.is_queued and mine.rank < row.rank
    -- If the first waiter is the caller's request, "mine" receives the result.
    if is_mine_ahead or mine and row.member == mine.member then row = mine end
    if not row or row.token > 0 then return end
    local is_limited = (it.limit or 0) > 0 and it.units + row.weight > it.limit
    if it.held > 0 and (is_limited or row.mode ~= 's') then return end
    row.passes = row.mode == 'p'
    if not row.passes then
      row.token, row.granted = next_number(), now
      count_holder(it, row)
    end
    if row == mine and not row.is_queued then return end
    if row.passes then F.pass(it, row, mine) else F.record_grant(it, row, mine) end
  end
end

-- Writes the grant of a queued row, and notifies its session unless it is the caller's.
function F.record_grant(it, row, mine)
  if row.rank > 0 then call('ZADD', F.queue_key(it.key), 0, F.entry_of(row)) end
  F.write_sums(it, row.member, F.queued_row_text(row))
  if row ~= mine then
    local ref, session = F.split_member(row.member)
    F.add_message(session, 'g ' .. ref .. ' ' .. F.int(row.token))
  end
end
