-- A client is still here, and hears so through its subscription.
--
-- ARGV: rules, node
local node = ARGV[2]
local info = node_key(node, 'info')
local known = redis.call('HMGET', info, 'node_id', 'x_stopping')
if not known[1] or not is_alive(node) then
  return redis.error_reply('NOCLIENT the client must introduce itself')
end
hear(node)
redis.call('HSET', info, 'last_ping_at', text(t))
if not known[2] then
  for _, channel in ipairs(redis.call('SMEMBERS', node_key(node, 'channels'))) do
    redis.call('SADD', listeners_key(channel), node)
    served(channel)
    if redis.call('SISMEMBER', WAITING, channel) == 1 then drain(channel, 100) end
  end
end
-- Scripts run one at a time, so nobody needs the lock; a stock peer's that broke has left it closed.
redis.call('SET', 'origami:tick:lock', 1)
keep_client(node)
publish('a', node, '1')
return redis.status_reply('OK')
