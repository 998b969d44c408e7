-- A call comes, or comes again: registered once, and offered in the same step if nobody waits before it.
--
-- ARGV: rules, caller, id, channel, params, group, whether nobody wants the answer, queue timeout, time of
--       the whole call, digest, idempotency key, trace, whether it needs a consumer at once, the answer if
--       it has none, how many may wait in the channel, how many may be open in all; times in microseconds, '' for what there is not
local caller, id, channel, params, group, silent = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local queue_timeout, time, digest, key, trace = ARGV[8], tonumber(ARGV[9]), ARGV[10], ARGV[11], ARGV[12]
local needs_consumer, without, queue_max = ARGV[13] == '1', ARGV[14], tonumber(ARGV[15])

if caller ~= NOBODY then
  local heard = redis.call('GET', alive_key(caller))
  if not is_recent(heard) then
    return redis.error_reply('NOCLIENT the client must introduce itself')
  end
  hear(caller, heard)
end

local before, is_left = load(id)
if before then
  local same = before.digest == digest or (not before.digest and before.params == params)
  if not same or before.channel ~= channel or before.sender ~= caller then
    return redis.error_reply('IDREUSED the id stands for another call')
  end
  publish('c', caller, id)
  if before.state == 'WAIT_RESPONSE_ACK' or before.state == 'DONE' then tell_ended(id) end
  return redis.status_reply('AGAIN')
end

if key ~= '' then
  local first = redis.call('GET', 'origami:x:key:' .. channel .. ':' .. key)
  local leader = first and load(first)
  if leader then
    if leader.digest ~= digest then return redis.error_reply('KEYREUSED the key stands for another call') end
    return redis.error_reply('FOLLOWS ' .. first)
  end
end

local waiting = redis.call('ZCARD', queue_key(channel))
if waiting >= queue_max then
  return redis.error_reply('FULL calls.queue_max')
end
if redis.call('ZCARD', DUE) >= tonumber(ARGV[16]) then return redis.error_reply('FULL calls.calls_max') end

local settings = redis.call('HMGET', settings_key(channel), 'queue_timeout', 'without_consumer', 'lease')
leases[channel] = tonumber(settings[3] or '') or LEASE
if queue_timeout == '' then queue_timeout = settings[1] or '' end
local waits = tonumber(queue_timeout) or 0
local begin_by = waits > 0 and string.format('%d', t + waits) or false
local seq, deadline = redis.call('INCR', 'origami:x:seq'), string.format('%d', t + time)
if is_left then redis.call('DEL', call_key(id)) end
redis.call('HSET', call_key(id), 'sender_node_id', caller, 'executor_node_id', '', 'state', 'PENDING',
  'channel', channel, 'group_key', group, 'weight', '0', 'timeout', text(waits), 'expired', text(t + waits),
  'try_after', '0', 'no_response', silent, 'request_id', id,
  'params', params, 'response', '', 'error', '0', 'request_expired', '0', 'request_sender_ack', '1',
  'request_executor_ack', '-1', 'response_sender_ack', '-1', 'response_executor_ack', '-1',
  'created_at', text(t), 'x_seq', seq, 'x_fence', '0', 'x_attempt', '0',
  'x_digest', digest, 'x_deadline', deadline)
if begin_by then redis.call('HSET', call_key(id), 'x_begin_by', begin_by) end
if trace ~= '' then redis.call('HSET', call_key(id), 'x_trace', trace) end
if key ~= '' then
  redis.call('HSET', call_key(id), 'x_key', key)
  redis.call('SET', 'origami:x:key:' .. channel .. ':' .. key, id, 'PX', math.ceil((time + KEY_KEPT) / 1000))
end
if caller ~= NOBODY then
  put_in(caller, 'out:pending_pool', id)
  count(caller, 'out_pending_requests', 1)
  publish('c', caller, id)
end

local became
if waiting > 0 then
  set_due(id, last_moment(deadline, begin_by, '0'))
  local _, here = choose(channel)
  enqueue(id, channel, seq, here)
  became = here and 'full' or 'nobody'
  if here then drain(channel, 2) end
else
  became = offer(id, { 'PENDING', channel, group, '0', '0', text(t), seq, text(waits), false, caller, params, deadline,
    begin_by, '0', trace })
  -- Whatever was offered is due by when it must be accepted.
  if became ~= 'offered' then set_due(id, last_moment(deadline, begin_by, '0')) end
end
if became == 'nobody' and (needs_consumer or settings[2] == 'fail') then
  dequeue(id, channel)
  forget_if_empty(channel)
  redis.call('ZREM', DUE, id)
  redis.call('HDEL', call_key(id), 'x_key')
  if key ~= '' then redis.call('DEL', 'origami:x:key:' .. channel .. ':' .. key) end
  redis.call('HSET', call_key(id), 'state', caller == NOBODY and 'DONE' or 'WAIT_RESPONSE_ACK', 'error', '1',
    'response', without, 'params', '', 'x_outcome', 'no_consumer', 'x_forget', string.format('%d', t + KEPT),
    'executor_complete_at', text(t), 'sent_to_initiator_at', text(t))
  redis.call('PEXPIRE', call_key(id), math.ceil(KEPT / 1000))
  if caller ~= NOBODY then
    redis.call('RPUSH', pool('response_ack'), id)
    tell_ended(id)
  end
end
return redis.status_reply('OK')
