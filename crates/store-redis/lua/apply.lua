-- Makes true what was decided about some calls, all of it or nothing.
--
-- ARGV: rules, then for each call: id, the state it was decided in ('' if it was not there), the fence,
--       how many steps; and each step: how many words, the words. A step is a command of Redis, or
--       one of those below, which know what a peer understands.
local steps = {}
local at = 2
while at <= #ARGV do
  local id, state, fence, count = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local call = redis.call('HMGET', call_key(id), 'state', 'x_fence')
  if (call[1] or '') ~= state or (call[2] or '0') ~= fence then return redis.status_reply('CONFLICT') end
  at = at + 4
  for _ = 1, count do
    local words = { id }
    for n = 1, tonumber(ARGV[at]) do words[n + 1] = ARGV[at + n] end
    steps[#steps + 1] = words
    at = at + #words
  end
end

local own = {
  OFFER = function(id) offer(id) end,
  DRAIN = function(_, channel) drain(channel, 128) end,
  RELEASE = function(id)
    local call = load(id)
    if call then release(id, call) end
  end,
  ENQUEUE = function(id, channel, seq)
    enqueue(id, channel, seq, false)
    served(channel)
  end,
  DEQUEUE = function(id, channel) dequeue(id, channel) end,
  REGISTERED = function(id, node) publish('c', node, id) end,
  OFFERED = function(id, node) tell_offer(id, node) end,
  HELD = function(id, node, held) tell_held(id, node, held == '1', false) end,
  ENDED = function(id) tell_ended(id) end,
  TAKEN = function(id, node, fence, taken) tell_taken(id, node, fence, taken == '1') end,
  CANCELLED = function(id, node, fence) tell_cancelled(id, node, fence) end,
  HEAR = function(_, node) hear(node) end,
  SILENT = function(_, node)
    if redis.call('EXISTS', node_key(node, 'info')) == 0 then return end
    -- Whoever is chosen next is not it.
    about(node).is_alive = false
    if layout_of(node) == 'seed' then
      redis.call('HSET', node_key(node, 'info'), 'x_silent', '1')
    else
      -- As their own ticks do it.
      redis.call('DEL', alive_key(node))
    end
  end,
}
for _, words in ipairs(steps) do
  local step = own[words[2]]
  if step then
    step(words[1], unpack(words, 3))
  else
    redis.call(unpack(words, 2))
  end
end
write_figures()
return redis.status_reply('DONE')
