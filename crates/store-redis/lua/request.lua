-- Calls come, or come again: each is registered once, and offered in the same step if nobody waits before it.
--
-- ARGV: rules, caller, then for each: id, channel, params, group, whether nobody wants the answer, queue timeout,
--       time of the whole call, digest, idempotency key, trace, whether it needs a consumer at once, the answer if
--       it has none, how many may wait in the channel, how many may be open in all; times in microseconds, '' for
--       what there is not
local caller = ARGV[2]
if caller ~= NOBODY then
  if not is_alive(caller) then
    return redis.error_reply('NOCLIENT the client must introduce itself')
  end
  hear(caller)
end

local function request(id, channel, params, group, silent, queue_timeout, time, digest, key, trace,
  needs_consumer, without, queue_max, calls_max)
  time = tonumber(time)
  local place = call_key(id)
  local before, is_left
  -- Most are new, and of those nothing is there.
  if redis.call('EXISTS', place) == 1 then before, is_left = load(id) end
  if before then
    local known = redis.call('HMGET', place, 'x_digest', 'params')
    local same = known[1] == digest or (not known[1] and known[2] == params)
    if not same or before.channel ~= channel or before.sender ~= caller then
      return redis.error_reply('IDREUSED the id stands for another call')
    end
    publish('c', caller, id)
    if before.state == 'WAIT_RESPONSE_ACK' or before.state == 'DONE' then tell_ended(id) end
    return redis.status_reply('AGAIN')
  end

  if key ~= '' then
    local first = redis.call('GET', 'origami:x:key:' .. channel .. ':' .. key)
    if first and load(first) then
      if redis.call('HGET', call_key(first), 'x_digest') ~= digest then
        return redis.error_reply('KEYREUSED the key stands for another call')
      end
      return redis.error_reply('FOLLOWS ' .. first)
    end
  end

  local waiting = redis.call('ZCARD', queue_key(channel))
  if waiting >= tonumber(queue_max) then return redis.error_reply('FULL calls.queue_max') end
  if redis.call('ZCARD', DUE) >= tonumber(calls_max) then return redis.error_reply('FULL calls.calls_max') end

  local settings = redis.call('HMGET', settings_key(channel), 'queue_timeout', 'without_consumer', 'lease')
  leases[channel] = tonumber(settings[3] or '') or LEASE
  if queue_timeout == '' then queue_timeout = settings[1] or '' end
  local waits = tonumber(queue_timeout) or 0
  local begin_by = waits > 0 and string.format('%d', t + waits) or false
  local node, here
  if waiting == 0 then
    node, here = find(channel, group)
  else
    here = select(2, choose(channel))
  end
  local seq, fence = redis.call('INCR', 'origami:x:seq'), node and next_fence() or '0'
  local deadline = string.format('%d', t + time)
  local offered = node and
    { 'sent_to_executor_at', NOW, 'x_offers', '1', 'x_until', string.format('%d', t + OFFER_TIMEOUT) } or {}
  if is_left then redis.call('DEL', place) end
  redis.call('HSET', place, 'sender_node_id', caller, 'executor_node_id', node or '',
    'state', node and 'WAIT_REQUEST_ACK' or 'PENDING', 'channel', channel, 'group_key', group, 'weight', '0',
    'timeout', waits > 0 and text(waits) or '0.000000', 'expired', waits > 0 and text(t + waits) or NOW,
    'try_after', '0', 'no_response', silent, 'request_id', id, 'params', params, 'response', '', 'error', '0',
    'request_expired', '0', 'request_sender_ack', '1', 'request_executor_ack', '-1', 'response_sender_ack', '-1',
    'response_executor_ack', '-1', 'created_at', NOW, 'x_seq', seq, 'x_fence', fence,
    'x_attempt', '0', 'x_digest', digest, 'x_deadline', deadline, unpack(offered))
  if begin_by then redis.call('HSET', place, 'x_begin_by', begin_by) end
  if trace ~= '' then redis.call('HSET', place, 'x_trace', trace) end
  if key ~= '' then
    redis.call('HSET', place, 'x_key', key)
    redis.call('SET', 'origami:x:key:' .. channel .. ':' .. key, id, 'PX', math.ceil((time + KEY_KEPT) / 1000))
  end
  if caller ~= NOBODY then
    put_out(caller, 'out:pending_pool', id)
    count_open(caller, 'out_pending_requests', 1)
    publish('c', caller, id)
  end

  local latest = last_moment(deadline, begin_by, '0')
  if node then
    give(id, node, group, { channel = channel, sender = caller, params = params, fence = fence, attempt = '1',
      deadline = deadline, trace = trace }, latest)
    return redis.status_reply('OK')
  end
  set_due(id, latest)
  enqueue(id, channel, seq, here)
  if waiting > 0 and here then drain(channel, 2) end
  if not here and (needs_consumer or settings[2] == 'fail') then
    dequeue(id, channel)
    forget_if_empty(channel)
    redis.call('ZREM', DUE, id)
    redis.call('HDEL', place, 'x_key')
    if key ~= '' then redis.call('DEL', 'origami:x:key:' .. channel .. ':' .. key) end
    redis.call('HSET', place, 'state', caller == NOBODY and 'DONE' or 'WAIT_RESPONSE_ACK', 'error', '1',
      'response', without, 'params', '', 'x_outcome', 'no_consumer', 'x_forget', string.format('%d', t + KEPT),
      'executor_complete_at', NOW, 'sent_to_initiator_at', NOW)
    redis.call('PEXPIRE', place, math.ceil(KEPT / 1000))
    if caller ~= NOBODY then
      redis.call('RPUSH', POOL_RESPONSE_ACK, id)
      tell_ended(id)
    end
  end
  return redis.status_reply('OK')
end

local said = {}
for at = 3, #ARGV, 14 do
  local id, channel, params, group, silent, queue_timeout, time, digest, key, trace, needs, without, queue_max, calls_max =
    unpack(ARGV, at, at + 13)
  said[#said + 1] = request(id, channel, params, group, silent, queue_timeout, time, digest, key, trace, needs == '1',
    without, queue_max, calls_max)
end
write_figures()
return said
