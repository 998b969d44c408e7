-- A consumer begins calls.
--
-- ARGV: rules, node, then for each: id, fence or '', whether it was not told what the call is
local node = ARGV[2]
hear(node)

local function accept(id, fence, wants_work)
  local call = load(id)
  local held = call ~= nil and is_held(call, node, fence)
  local lease = held and lease_of(call.channel)
  if held and call.state == 'WAIT_REQUEST_ACK' then
    redis.call('HSET', call.place, 'state', 'EXECUTING', 'request_executor_ack', '0',
      'executor_accept_at', NOW, 'x_until', string.format('%d', t + lease), 'x_attempt', tonumber(call.attempt) + 1)
    redis.call('LREM', POOL_REQUEST_ACK, '1', id)
    redis.call('SMOVE', node_key(node, 'in:pending_pool'), node_key(node, 'in:executing_pool'), id)
    count_open(node, 'in_pending_requests', -1)
    count_open(node, 'in_executing_requests', 1)
    if call.sender ~= NOBODY then
      put_out(call.sender, 'out:executing_pool', id, 'out:pending_pool')
    end
    -- What was begun has its whole time.
    set_due(id, math.min(last_moment(call.deadline), t + lease))
  elseif held then
    -- Its answer was lost. Whoever hears this one counts a whole lease from now on.
    redis.call('HSET', call.place, 'x_until', string.format('%d', t + lease))
    set_due(id, math.min(last_moment(call.deadline, call.begin_by, call.attempt), t + lease))
  end
  if held and wants_work then tell_offer(id, node) end
  tell_held(id, node, held, wants_work, fence)
  return redis.status_reply(held and 'HELD' or 'NOT')
end

local said = {}
for at = 3, #ARGV, 3 do
  said[#said + 1] = accept(ARGV[at], ARGV[at + 1], ARGV[at + 2] == '1')
end
write_figures()
return said
