-- A caller has an outcome. What is not known, nobody needs to be told of again.
--
-- ARGV: rules, caller, id, whether it was not told what the outcome is
local caller, id, wants_answer = ARGV[2], ARGV[3], ARGV[4] == '1'
hear(caller)
local call = load(id)
if not call then
  publish('f', caller, id)
  return redis.status_reply('OK')
end
if call.sender ~= caller then return redis.error_reply('NOTYOURS the call is another client\'s') end
if call.state ~= 'WAIT_RESPONSE_ACK' and call.state ~= 'DONE' then
  return redis.error_reply('NOTOVER the call is not over yet')
end
if redis.call('HINCRBY', call_key(id), 'response_sender_ack', 1) == 0 then
  redis.call('HSET', call_key(id), 'state', 'DONE', 'initiator_accept_at', text(t))
  redis.call('LREM', pool('response_ack'), -1, id)
  redis.call('ZREM', DUE, id)
  if redis.call('SREM', node_key(caller, 'out:executing_pool'), id) == 0 then
    redis.call('SREM', node_key(caller, 'out:pending_pool'), id)
  end
  count(caller, 'out_pending_requests', -1)
  count(caller, 'out_processed_requests', 1)
end
tell_settled(id, caller, wants_answer)
return redis.status_reply('OK')
