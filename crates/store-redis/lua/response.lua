-- A consumer has answered: each answer is stored once, and both sides are told.
--
-- ARGV: rules, node, then for each: id, fence or '', the answer
local node = ARGV[2]
hear(node)

local function store(id, fence, answer)
  local call = load(id)
  if not call then
    tell_taken(id, node, fence, false)
    return redis.status_reply('UNKNOWN')
  end
  if not is_held(call, node, fence) then
    local again = call.taken == node .. ' ' .. fence or (fence == '' and call.taken == node .. ' ' .. call.fence)
    tell_taken(id, node, fence, again)
    if again then return redis.status_reply('TAKEN') end
    redis.call('HINCRBY', 'origami:x:counts', 'late', '1')
    local over = call.state == 'WAIT_RESPONSE_ACK' or call.state == 'DONE'
    return redis.status_reply(over and 'OVER' or 'FENCED')
  end
  -- Those who wait for the same key end in the same step, which is decided elsewhere.
  if call.key and redis.call('EXISTS', 'origami:x:followers:' .. id) == 1 then
    return redis.error_reply('FOLLOWED ' .. id)
  end

  -- Whoever answers what it did not accept has begun it all the same.
  if call.state == 'WAIT_REQUEST_ACK' then redis.call('HINCRBY', call.place, 'x_attempt', '1') end
  release(id, call)
  local lasts = call.key and KEY_KEPT or KEPT
  local stock = not call.silent and layout_of(call.sender) ~= 'seed'
  if stock then lasts = math.max(lasts, STOCK_KEPT) end
  redis.call('HSET', call.place, 'state', call.silent and 'DONE' or 'WAIT_RESPONSE_ACK', 'error', '0',
    'response', answer, 'params', '', 'response_executor_ack', '0', 'executor_complete_at', NOW,
    'sent_to_initiator_at', NOW, 'x_taken', node .. ' ' .. call.fence, 'x_outcome', 'answer',
    'x_forget', string.format('%d', t + lasts))
  redis.call('PEXPIRE', call.place, math.ceil(lasts / 1000))
  count(node, 'in_processed_requests', 1)
  tell_taken(id, node, call.fence, true)
  if call.silent then
    redis.call('ZREM', DUE, id)
  else
    redis.call('RPUSH', POOL_RESPONSE_ACK, id)
    set_due(id, t + (stock and TELL_AGAIN or lasts))
    tell_ended(id, { error = '0', response = answer, executor = node, outcome = 'answer', sender = call.sender })
  end
  if redis.call('SISMEMBER', WAITING, call.channel) == 1 then drain(call.channel, 2) end
  return redis.status_reply('TAKEN')
end

local said = {}
for at = 3, #ARGV, 3 do said[#said + 1] = store(ARGV[at], ARGV[at + 1], ARGV[at + 2]) end
write_figures()
return said
