-- A foreign peer's side of the protocol, as its documents and its behaviour describe it: the same keys,
-- gates and lists, its own layouts, a tick that dispatches at most once in ten milliseconds and that
-- breaks, with its lock closed, on a call that nobody is there for.
--
-- ARGV: verb, version, then what the verb needs
local verb, version = ARGV[1], ARGV[2]
local early = string.match(version, '^1%.0') ~= nil

local time = redis.call('TIME')
-- Without padding, as it does it.
local now = tonumber(time[1] .. '.' .. time[2])
local stamp = string.format('%.17g', now)

local function hash(id) return 'origami:requests:list:' .. id .. ':info' end
local function node(id, what) return 'origami:clients:list:' .. id .. ':' .. what end
local function list(name) return 'origami:requests:' .. name .. '_pool:list' end
local function alive(id) return 'origami:clients:active_pool:' .. id end
local function tell(kind, who, message) redis.call('PUBLISH', 'origami.' .. kind .. who, message) end
local function get(id, field) return redis.call('HGET', hash(id), field) or '' end

local function offer(id)
  local executor, channel = get(id, 'executor_node_id'), get(id, 'channel')
  if early then
    tell('b', executor .. channel, id .. get(id, 'sender_node_id') .. get(id, 'params'))
  else
    tell('b', executor .. channel, id)
  end
end

local function answer(id, to)
  local flag = get(id, 'error')
  if flag == '2' then return tell(to, get(id, 'sender_node_id'), '2' .. id) end
  tell(to, get(id, 'sender_node_id'), flag .. id .. get(id, 'executor_node_id') .. get(id, 'response'))
end

local function ended(id)
  if early then answer(id, 'e') else tell('e', get(id, 'sender_node_id'), id) end
end

local function tick()
  if now < tonumber(redis.call('GET', 'origami:tick:time') or '0') then return end
  if redis.call('INCR', 'origami:tick:lock') ~= 2 then return end
  redis.call('SET', 'origami:tick:time', string.format('%.17g', now + 0.01))
  for _, id in ipairs(redis.call('LRANGE', list('response_ack'), 0, 999)) do ended(id) end
  for _, id in ipairs(redis.call('LRANGE', list('request_ack'), 0, 999)) do
    if now - tonumber(get(id, 'sent_to_executor_at')) > 5 then
      redis.call('DEL', alive(get(id, 'executor_node_id')))
      redis.call('HSET', hash(id), 'state', 'PENDING')
      redis.call('LREM', list('request_ack'), 1, id)
      redis.call('LPUSH', list('pending'), id)
    else
      offer(id)
    end
  end
  for _, id in ipairs(redis.call('LRANGE', list('pending'), 0, 999)) do
    local channel = get(id, 'channel')
    local here = {}
    for _, who in ipairs(redis.call('SMEMBERS', 'origami:channels:' .. channel .. ':listeners')) do
      if redis.call('EXISTS', alive(who)) == 1 then here[#here + 1] = who end
    end
    local turn = redis.call('HINCRBY', 'origami:channels:' .. channel .. ':info', 'rr_counter', 1)
    local chosen = here[turn % math.max(#here, 1) + 1]
    -- Here it breaks: there is nobody to join to the text, and the lock stays closed.
    if not chosen then return end
    redis.call('HSET', hash(id), 'state', 'WAIT_REQUEST_ACK', 'executor_node_id', chosen,
      'sent_to_executor_at', stamp)
    redis.call('LREM', list('pending'), 1, id)
    redis.call('RPUSH', list('request_ack'), id)
    redis.call('SADD', node(chosen, 'in:pending_pool'), id)
    offer(id)
  end
  redis.call('SET', 'origami:tick:lock', 1)
end

local verbs = {}

function verbs.init(me, channel)
  redis.call('HSET', node(me, 'info'), 'node_id', me, 'client', 'NodeJS', 'client_version', version,
    'last_ping_at', stamp, 'created_at', stamp)
  redis.call('SET', alive(me), stamp, 'EX', 10)
  redis.call('SETNX', 'origami:tick:lock', 1)
  if channel ~= '' then
    redis.call('SADD', node(me, 'channels'), channel)
    redis.call('SADD', 'origami:channels:' .. channel .. ':listeners', me)
    redis.call('HSET', 'origami:channels:' .. channel .. ':info', 'name', channel, 'concurrent', 0,
      'reservoir_enable', 0, 'reservoir_size', 0, 'reservoir_interval', 0, 'rr_counter', 0)
  end
end

function verbs.ping(me)
  redis.call('SET', alive(me), stamp, 'EX', 10)
  tell('a', me, '1')
  tick()
end

function verbs.request(me, id, channel, params, timeout)
  if redis.call('HINCRBY', hash(id), 'request_sender_ack', 1) == 1 then
    redis.call('HSET', hash(id), 'sender_node_id', me, 'executor_node_id', '', 'state', 'PENDING', 'channel', channel,
      'group_key', 'default', 'weight', 0, 'expired', string.format('%.17g', now + timeout), 'timeout', timeout,
      'try_after', 0, 'no_response', 0, 'request_id', id, 'params', params, 'response', '', 'error', 0,
      'request_executor_ack', -1, 'response_sender_ack', -1, 'response_executor_ack', -1, 'created_at', stamp)
    redis.call('RPUSH', list('pending'), id)
  end
  tell('c', me, id)
  tick()
end

function verbs.request_ack(me, id)
  local mine = get(id, 'executor_node_id') == me and redis.call('HINCRBY', hash(id), 'request_executor_ack', 1) == 0
  if mine then
    redis.call('HSET', hash(id), 'state', 'EXECUTING', 'executor_accept_at', stamp)
    redis.call('LREM', list('request_ack'), 1, id)
    redis.call('RPUSH', list('executing'), id)
    redis.call('SMOVE', node(me, 'in:pending_pool'), node(me, 'in:executing_pool'), id)
  end
  if not mine then
    tell('d', me, '0' .. id)
  elseif early then
    tell('d', me, '1' .. id)
  else
    tell('d', me, '1' .. id .. get(id, 'sender_node_id') .. get(id, 'params'))
  end
  tick()
end

function verbs.response(me, id, flag, body)
  if redis.call('HINCRBY', hash(id), 'response_executor_ack', 1) == 0 then
    redis.call('HSET', hash(id), 'state', 'WAIT_RESPONSE_ACK', 'error', flag, 'response', body,
      'executor_node_id', me, 'executor_complete_at', stamp, 'sent_to_initiator_at', stamp)
    redis.call('LREM', list('executing'), 1, id)
    redis.call('RPUSH', list('response_ack'), id)
    redis.call('SREM', node(me, 'in:executing_pool'), id)
    local running = 'origami:channels:' .. get(id, 'channel') .. ':groups:default'
    redis.call('DECR', running)
    tell('g', me, id)
    ended(id)
  else
    tell('g', me, id)
  end
  tick()
end

function verbs.response_ack(me, id)
  if redis.call('HINCRBY', hash(id), 'response_sender_ack', 1) == 0 then
    redis.call('HSET', hash(id), 'state', 'DONE', 'initiator_accept_at', stamp)
    redis.call('LREM', list('response_ack'), 1, id)
    redis.call('EXPIRE', hash(id), 10800)
  end
  if early then tell('f', me, id) else answer(id, 'f') end
  tick()
end

function verbs.stop(me)
  for _, channel in ipairs(redis.call('SMEMBERS', node(me, 'channels'))) do
    redis.call('SREM', 'origami:channels:' .. channel .. ':listeners', me)
  end
  redis.call('DEL', alive(me))
  tell('h', me, '1')
end

verbs[verb](unpack(ARGV, 3))
return 1
