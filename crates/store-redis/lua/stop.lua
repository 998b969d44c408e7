-- A client wants no more calls, or its connection is gone. Those it runs it may still answer; what it has
-- not accepted goes to others at once.
--
-- ARGV: rules, node, whether it hears of it
local node = ARGV[2]
if not is_alive(node) then
  return redis.error_reply('NOCLIENT the client must introduce itself')
end
-- That its connection is gone is said once, however often somebody notices.
local info = node_key(node, 'info')
if ARGV[3] == '0' and redis.call('HGET', info, 'x_stopping') == '0' then return redis.status_reply('OK') end
redis.call('HSET', info, 'x_stopping', ARGV[3], 'x_heard', NOW)
redis.call('SET', alive_key(node), NOW, 'PX', math.ceil(CLIENT_TIMEOUT / 1000))
for _, channel in ipairs(redis.call('SMEMBERS', node_key(node, 'channels'))) do
  redis.call('SREM', listeners_key(channel), node)
end
for _, id in ipairs(redis.call('SRANDMEMBER', node_key(node, 'in:pending_pool'), 1000)) do
  local call = load(id)
  if call and call.state == 'WAIT_REQUEST_ACK' and call.executor == node then
    release(id, call)
    redis.call('HSET', call_key(id), 'state', 'PENDING')
    offer(id)
  else
    redis.call('SREM', node_key(node, 'in:pending_pool'), id)
  end
end
write_figures()
keep_client(node)
if ARGV[3] == '1' then publish('h', node, '1') end
return redis.status_reply('OK')
