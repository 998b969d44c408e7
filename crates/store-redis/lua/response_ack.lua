-- A caller has outcomes. What is not known, nobody needs to be told of again.
--
-- ARGV: rules, caller, then for each: id, whether it was not told what the outcome is
local caller = ARGV[2]
hear(caller)

local function settle(id, wants_answer)
  local place = call_key(id)
  local call = redis.call('HMGET', place, 'state', 'sender_node_id', 'x_forget', 'response_sender_ack')
  local forget = tonumber(call[3] or '')
  if not call[1] or (forget and forget <= t) then
    publish('f', caller, id)
    return redis.status_reply('OK')
  end
  if (call[2] or NOBODY) ~= caller then return redis.error_reply('NOTYOURS the call is another client\'s') end
  if call[1] ~= 'WAIT_RESPONSE_ACK' and call[1] ~= 'DONE' then
    return redis.error_reply('NOTOVER the call is not over yet')
  end
  if tonumber(call[4] or '0') == -1 then
    redis.call('HSET', place, 'state', 'DONE', 'initiator_accept_at', NOW, 'response_sender_ack', '0')
    redis.call('LREM', POOL_RESPONSE_ACK, '-1', id)
    redis.call('ZREM', DUE, id)
    if redis.call('SREM', node_key(caller, 'out:executing_pool'), id) == 0 then
      redis.call('SREM', node_key(caller, 'out:pending_pool'), id)
    end
    count_open(caller, 'out_pending_requests', -1)
    count(caller, 'out_processed_requests', 1)
  else
    redis.call('HINCRBY', place, 'response_sender_ack', '1')
  end
  tell_settled(id, caller, wants_answer)
  return redis.status_reply('OK')
end

local said = {}
for at = 3, #ARGV, 2 do said[#said + 1] = settle(ARGV[at], ARGV[at + 1] == '1') end
write_figures()
return said
