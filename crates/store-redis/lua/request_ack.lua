-- A consumer begins a call.
--
-- ARGV: rules, node, id, fence or '', whether it was not told what the call is
local node, id, fence, wants_work = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
hear(node)
local call = load(id)
local held = call ~= nil and is_held(call, node, fence)
local lease = held and lease_of(call.channel)
if held and call.state == 'WAIT_REQUEST_ACK' then
  redis.call('HSET', call_key(id), 'state', 'EXECUTING', 'request_executor_ack', '0',
    'executor_accept_at', text(t), 'x_until', string.format('%d', t + lease), 'x_attempt', tonumber(call.attempt) + 1)
  redis.call('LREM', pool('request_ack'), -1, id)
  redis.call('RPUSH', pool('executing'), id)
  put_in(node, 'in:executing_pool', id, 'in:pending_pool')
  count(node, 'in_pending_requests', -1)
  count(node, 'in_executing_requests', 1)
  if call.sender ~= NOBODY then
    put_in(call.sender, 'out:executing_pool', id, 'out:pending_pool')
  end
  -- What was begun has its whole time.
  set_due(id, math.min(last_moment(call.deadline), t + lease))
elseif held then
  -- Its answer was lost. Whoever hears this one counts a whole lease from now on.
  redis.call('HSET', call_key(id), 'x_until', string.format('%d', t + lease))
  set_due(id, math.min(last_moment(call.deadline, call.begin_by, call.attempt), t + lease))
end
if held and wants_work then tell_offer(id, node) end
tell_held(id, node, held, wants_work, fence)
return redis.status_reply(held and 'HELD' or 'NOT')
