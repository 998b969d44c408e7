-- A client is here, for the first time or again. What it was told of and has not answered it is told of
-- once more: nobody knows whether it heard.
--
-- ARGV: rules, node, name, app, app version, process, host, platform, program, version,
--       then channel and how many calls of it at once, for each channel it serves
local node = ARGV[2]
local info = node_key(node, 'info')
local created = redis.call('HGET', info, 'created_at') or NOW
redis.call('HSET', info, 'node_id', node, 'node_name', ARGV[3], 'app_name', ARGV[4], 'app_version', ARGV[5],
  'runtime_pid', ARGV[6], 'hostname', ARGV[7], 'platform', ARGV[8], 'client', ARGV[9], 'client_version', ARGV[10],
  'last_ping_at', NOW, 'created_at', created, 'x_heard', NOW)
for _, way in ipairs({ 'in', 'out' }) do
  for _, kind in ipairs({ 'pending', 'executing', 'errored', 'processed' }) do
    redis.call('HSETNX', info, way .. '_' .. kind .. '_requests', 0)
  end
end
redis.call('HDEL', info, 'x_stopping', 'x_silent')
redis.call('SET', alive_key(node), NOW, 'PX', math.ceil(CLIENT_TIMEOUT / 1000))

local served = {}
for at = 11, #ARGV, 2 do served[ARGV[at]] = ARGV[at + 1] end
for _, channel in ipairs(redis.call('SMEMBERS', node_key(node, 'channels'))) do
  if not served[channel] then
    redis.call('SREM', node_key(node, 'channels'), channel)
    redis.call('SREM', listeners_key(channel), node)
    redis.call('HDEL', info, 'x_takes:' .. channel)
  end
end
for channel, takes in pairs(served) do
  redis.call('SADD', node_key(node, 'channels'), channel)
  redis.call('SADD', listeners_key(channel), node)
  redis.call('SADD', 'origami:x:channels', channel)
  redis.call('HSET', info, 'x_takes:' .. channel, takes)
  -- Stock peers expect these fields of every channel, and those who set them meant it.
  local about = channel_key(channel)
  redis.call('HSET', about, 'name', channel)
  for _, field in ipairs({ 'concurrent', 'reservoir_enable', 'reservoir_size', 'reservoir_interval', 'rr_counter' }) do
    redis.call('HSETNX', about, field, 0)
  end
end

-- What it serves no more goes to others; the rest it hears of again.
for _, what in ipairs({ 'in:pending_pool', 'in:executing_pool' }) do
  for _, id in ipairs(redis.call('SRANDMEMBER', node_key(node, what), 1000)) do
    local call = load(id)
    if not call or not is_held(call, node, '') then
      redis.call('SREM', node_key(node, what), id)
    elseif call.state == 'WAIT_REQUEST_ACK' and not served[call.channel] then
      release(id, call)
      redis.call('HSET', call_key(id), 'state', 'PENDING')
      offer(id)
    else
      tell_offer(id, node)
    end
  end
end
keep_client(node)
publish('a', node, '1')
for channel in pairs(served) do drain(channel, 100) end
write_figures()
redis.call('SET', 'origami:tick:lock', 1)
return redis.status_reply('OK')
