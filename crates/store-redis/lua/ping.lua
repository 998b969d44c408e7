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
local function open(what) return redis.call('SCARD', node_key(node, what)) end
redis.call('HSET', info, 'last_ping_at', NOW, 'in_pending_requests', open('in:pending_pool'),
  'in_executing_requests', open('in:executing_pool'),
  'out_pending_requests', open('out:pending_pool') + open('out:executing_pool'))
if not known[2] then
  for _, channel in ipairs(redis.call('SMEMBERS', node_key(node, 'channels'))) do
    redis.call('SADD', listeners_key(channel), node)
    served(channel)
    redis.call('EXPIRE', work_key(node, channel), CLIENT_KEPT)
    redis.call('EXPIRE', group_key(channel, 'default'), '86400')
    if redis.call('SISMEMBER', WAITING, channel) == 1 then drain(channel, 100) end
  end
end
-- Scripts run one at a time, so nobody needs the lock; a stock peer's that broke has left it closed.
redis.call('SET', 'origami:tick:lock', 1)
write_figures()
keep_client(node)
publish('a', node, '1')
return redis.status_reply('OK')
