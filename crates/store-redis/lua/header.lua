-- What every script begins with, behind its clock: keys, texts, and the steps that scripts share.
--
-- Keys and fields without `x` are those of every peer. `x_` fields and `origami:x:` keys are ours:
--
--   origami:x:due                  sorted set   calls by when something has to be done about them
--   origami:x:queue:{channel}      sorted set   calls that wait, by when they came
--   origami:x:waiting              set          channels whose queue is not empty and that somebody serves
--   origami:x:parked               sorted set   channels whose queue is not empty and that nobody serves, by
--                                               when that is looked at again
--   origami:x:parked:look          string       those were looked at a moment ago
--   origami:x:channels             set          channels that somebody serves or served
--   origami:x:work:{node}:{channel} set         calls of a channel that a node of ours has
--   origami:x:settings:{channel}   hash         what a channel's owner set
--   origami:x:key:{channel}:{key}  string       the call that has an idempotency key
--   origami:x:followers:{id}       set          calls that end as this one does
--   origami:x:dead:{channel}       sorted set   dead letters
--   origami:x:counts               hash         what happened how often
--   origami:x:guardian             string       who guards, for a few seconds
--   origami:x:fence                string       the largest fence that was given
--
-- Taking a call off a list goes through what lies before it. What ours run lies in no list: nobody reads the one of
-- calls that are executed. Offers are accepted in order, so that one lies at the beginning; an answer that is not
-- acknowledged may lie there for long, so that one that is lies at the end.
--
-- ARGV[1] is always the house's rules, in microseconds: offer timeout, lease, how long a call that is
-- over is known, the same with an idempotency key, how long a client may be silent.

local OFFER_TIMEOUT, LEASE, KEPT, KEY_KEPT, CLIENT_TIMEOUT = string.match(ARGV[1], '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
OFFER_TIMEOUT, LEASE, CLIENT_TIMEOUT = tonumber(OFFER_TIMEOUT), tonumber(LEASE), tonumber(CLIENT_TIMEOUT)
KEPT, KEY_KEPT = tonumber(KEPT), tonumber(KEY_KEPT)

-- A stock peer may come back for an answer for so long.
local STOCK_KEPT = 3 * 3600 * 1000000
-- Seconds that anything is known of a client that nothing is heard of.
local CLIENT_KEPT = '3600'
-- How often a stock peer is told again.
local TELL_AGAIN = 1000000
-- Consumers that are looked at to find two that are here.
local LOOKED_AT = 16
-- How long a channel that nobody serves is left alone, unless one of ours comes.
local PARKED_FOR = 1000000
-- Calls at the head of a queue that are looked at when those before them cannot go.
local PASSED_BY = 16

local NOBODY = '00000000-0000-0000-0000-000000000000'
local DUE = 'origami:x:due'
local FENCE = 'origami:x:fence'
local WAITING = 'origami:x:waiting'
local PARKED = 'origami:x:parked'
local POOL_PENDING = 'origami:requests:pending_pool:list'
local POOL_REQUEST_ACK = 'origami:requests:request_ack_pool:list'
local POOL_EXECUTING = 'origami:requests:executing_pool:list'
local POOL_RESPONSE_ACK = 'origami:requests:response_ack_pool:list'

local t = now()

local function node_key(node, what) return 'origami:clients:list:' .. node .. ':' .. what end
local function alive_key(node) return 'origami:clients:active_pool:' .. node end
local function call_key(id) return 'origami:requests:list:' .. id .. ':info' end
local function listeners_key(channel) return 'origami:channels:' .. channel .. ':listeners' end
local function channel_key(channel) return 'origami:channels:' .. channel .. ':info' end
local function group_key(channel, group) return 'origami:channels:' .. channel .. ':groups:' .. group end
local function queue_key(channel) return 'origami:x:queue:' .. channel end
local function work_key(node, channel) return 'origami:x:work:' .. node .. ':' .. channel end
local function settings_key(channel) return 'origami:x:settings:' .. channel end

-- Seconds with six decimals, always six.
local function text(micros)
  return string.format('%d.%06d', math.floor(micros / 1000000), micros % 1000000)
end

-- Now, as both are written.
local T, NOW = string.format('%d', t), text(t)

-- Microseconds of a time as any peer writes it; 0 of anything else.
local function micros(time)
  return math.floor((tonumber(time or '0') or 0) * 1000000 + 0.5)
end

-- A time of ours has six decimals and is exact. A stock peer's may be wrong by almost a second, so that
-- only the key itself counts.
local function is_recent(heard)
  if not heard then return false end
  if string.byte(heard, -7) ~= 46 then return true end
  return micros(heard) + CLIENT_TIMEOUT > t
end

-- Somebody serves a channel, or nobody does. The others are not slowed by those: they are looked at now
-- and then.
local function served(channel)
  if redis.call('ZREM', PARKED, channel) == 1 then redis.call('SADD', WAITING, channel) end
end

local function unserved(channel)
  redis.call('SREM', WAITING, channel)
  redis.call('ZADD', PARKED, string.format('%d', t + PARKED_FOR), channel)
end

-- Which bytes a node understands: 'seed', 'early' or 'swapped'; see layout.rs.
local function layout(client, version)
  if client ~= 'NodeJS' then return 'seed' end
  local major, minor = string.match(version or '', '^(%d+)%.(%d+)')
  if not major then return 'swapped' end
  major, minor = tonumber(major), tonumber(minor)
  if major < 1 or (major == 1 and minor < 1) then return 'early' end
  return 'swapped'
end

-- What is known of nodes, and how many calls of a channel one takes. Looked up once in a script. That one of ours was
-- heard of a moment ago stands there too, so that nothing else has to be looked up.
local nodes, takes = {}, {}
local function about(node, channel)
  local known = nodes[node]
  if known and not channel then return known end
  local place = node .. (channel or '')
  if not known or not takes[place] then
    local key = node_key(node, 'info')
    local info = redis.call('HMGET', key, 'client', 'client_version', 'node_id', 'x_silent', 'x_heard',
      'x_takes:' .. (channel or ''))
    takes[place] = tonumber(info[6] or '0')
    if not known then
      known = { layout = layout(info[1], info[2]), info = (info[1] or info[2] or info[3]) and key, is_silent = info[4] }
      known.is_fresh = t - micros(info[5]) < CLIENT_TIMEOUT / 4
    end
    nodes[node] = known
  end
  return known, takes[place]
end

local function layout_of(node) return about(node).layout end

local function is_alive(node) return about(node).is_fresh or is_recent(redis.call('GET', alive_key(node))) end

-- Something is heard of a node. One that did not accept in time is told of calls again; one that is
-- forgotten must introduce itself.
local function hear(node)
  local known = about(node)
  if known.is_silent then
    known.is_silent = false
    redis.call('HDEL', node_key(node, 'info'), 'x_silent')
    for _, channel in ipairs(redis.call('SMEMBERS', node_key(node, 'channels'))) do served(channel) end
  end
  if known.is_fresh then return end
  local heard = redis.call('GET', alive_key(node))
  if not is_recent(heard) or t - micros(heard) < CLIENT_TIMEOUT / 4 then return end
  redis.call('SET', alive_key(node), NOW, 'PX', math.ceil(CLIENT_TIMEOUT / 1000))
  if known.info and known.layout == 'seed' then redis.call('HSET', known.info, 'x_heard', NOW) end
end

-- A client that is killed leaves nothing for ever.
local function keep_client(node)
  for _, what in ipairs({ 'info', 'channels', 'in:pending_pool', 'in:executing_pool', 'out:pending_pool',
    'out:executing_pool' }) do
    redis.call('EXPIRE', node_key(node, what), CLIENT_KEPT)
  end
end

-- A call that a caller asked is in a set of it, moved there from another one if that is named. What it never
-- hears of lapses with it.
local kept = {}
local function put_out(node, what, id, from)
  local there = node_key(node, what)
  if from then redis.call('SMOVE', node_key(node, from), there, id) else redis.call('SADD', there, id) end
  if not kept[there] then redis.call('EXPIRE', there, CLIENT_KEPT) end
  kept[there] = true
end

-- What clients did, written when a script ends.
local figures = {}
local function count(node, figure, by)
  local of = figures[node]
  if not of then
    of = {}
    figures[node] = of
  end
  of[figure] = (of[figure] or 0) + by
end

-- What clients have under way. Those of ours say so when they ping.
local function count_open(node, figure, by)
  if layout_of(node) ~= 'seed' then count(node, figure, by) end
end

-- A client that is forgotten has none: a hash that came back would be there for ever.
local function write_figures()
  for node, of in pairs(figures) do
    local info = about(node).info
    for figure, by in pairs(of) do
      if info and by ~= 0 then redis.call('HINCRBY', info, figure, by) end
    end
  end
end

local function publish(kind, node, message)
  redis.call('PUBLISH', 'origami.' .. kind .. node, message)
end

-- How long whoever runs a call of a channel may be silent. Looked up once in a script.
local leases = {}
local function lease_of(channel)
  if not leases[channel] then
    leases[channel] = tonumber(redis.call('HGET', settings_key(channel), 'lease') or '') or LEASE
  end
  return leases[channel]
end

-- b: there is a call for a node. One of ours hears before it what the offer's bytes have no place for.
local function tell_work(id, node, call)
  local channel, layout = call.channel, layout_of(node)
  if layout == 'seed' then
    publish('x', node, 'b' .. id .. call.fence .. ' ' .. call.attempt .. ' ' .. (call.deadline or '0') .. ' '
      .. string.format('%d', lease_of(channel)) .. ' ' .. T .. ' ' .. (call.trace or ''))
  end
  if layout == 'swapped' then
    publish('b', node .. channel, id)
  else
    publish('b', node .. channel, id .. (call.sender or NOBODY) .. (call.params or 'null'))
  end
end

-- The same of a call that has to be looked up.
local function tell_offer(id, node)
  local call = redis.call('HMGET', call_key(id), 'channel', 'sender_node_id', 'params', 'x_fence',
    'x_attempt', 'x_deadline', 'x_trace', 'state')
  local attempt = tonumber(call[5] or '0')
  if call[8] ~= 'EXECUTING' then attempt = attempt + 1 end
  tell_work(id, node, { channel = call[1], sender = call[2], params = call[3], fence = call[4] or '0',
    attempt = attempt, deadline = call[6], trace = call[7] })
end

-- d: whether a call is the node's. One of ours hears before it which offer is not, if it said: it may have been told
-- of another meanwhile.
local function tell_held(id, node, held, wants_work, fence)
  if not held then
    if fence and fence ~= '' and layout_of(node) == 'seed' then publish('x', node, 'd' .. id .. fence) end
    return publish('d', node, '0' .. id)
  end
  if wants_work or layout_of(node) == 'swapped' then
    local call = redis.call('HMGET', call_key(id), 'sender_node_id', 'params')
    publish('d', node, '1' .. id .. (call[1] or NOBODY) .. (call[2] or 'null'))
  else
    publish('d', node, '1' .. id)
  end
end

-- How a call ended, with or without its executor.
local function end_of(id, call, with_executor)
  if call.error == '2' then return '2' .. id end
  local executor = call.executor
  if not executor or executor == '' then executor = NOBODY end
  return call.error .. id .. (with_executor and executor or '') .. call.response
end

local function ended_call(id)
  local call = redis.call('HMGET', call_key(id), 'error', 'response', 'executor_node_id', 'x_outcome', 'sender_node_id')
  return { error = call[1] or '1', response = call[2] or 'null', executor = call[3], outcome = call[4] or '',
    sender = call[5] or NOBODY }
end

-- e: a call is over. One of ours hears before it who ran it and how exactly it ended.
local function tell_ended(id, call)
  call = call or ended_call(id)
  local layout = layout_of(call.sender)
  if layout == 'swapped' then
    publish('e', call.sender, id)
  elseif layout == 'early' then
    publish('e', call.sender, end_of(id, call, true))
  else
    local executor = call.executor
    if not executor or executor == '' then executor = NOBODY end
    publish('x', call.sender, 'e' .. id .. executor .. call.outcome)
    -- A timeout has no answer in any layout; which one it was, the line before says.
    publish('e', call.sender, end_of(id, call, false))
  end
end

-- f: it is known that the caller has the outcome.
local function tell_settled(id, node, wants_answer)
  if wants_answer or layout_of(node) == 'swapped' then
    publish('f', node, end_of(id, ended_call(id), true))
  else
    publish('f', node, id)
  end
end

-- g: a result is stored, or was too late, which only one of ours can be told.
local function tell_taken(id, node, fence, taken)
  if layout_of(node) == 'seed' then
    publish('x', node, 'g' .. id .. fence .. (taken and ' 1' or ' 0'))
  end
  publish('g', node, id)
end

-- A call is wanted no more. Stock peers have no word for it.
local function tell_cancelled(id, node, fence)
  publish('x', node, 'k' .. id .. fence)
end

-- When something has to be done about a call.
local function set_due(id, at)
  redis.call('ZADD', DUE, string.format('%d', at), id)
end

-- Its deadline, or its time in the queue while it was never begun.
local function last_moment(deadline, begin_by, attempt)
  local at = tonumber(deadline or '') or (t + 86400000000)
  begin_by = tonumber(begin_by or '')
  if begin_by and (attempt or '0') == '0' and begin_by < at then at = begin_by end
  return at
end

-- Of two consumers drawn at random, the one that has fewer calls; and whether anybody is here at all.
local is_seeded = false
local function choose(channel)
  local listeners = redis.call('SRANDMEMBER', listeners_key(channel), LOOKED_AT)
  local here, best, least = false, nil, nil
  if not is_seeded then math.randomseed(t % 2147483647) end
  is_seeded = true
  for round = 1, 2 do
    local count, seen = #listeners, 0
    local start = count > 0 and math.random(count) or 0
    for i = 0, count - 1 do
      local node = listeners[(start + i - 1) % count + 1]
      local known, most = about(node, channel)
      if known.is_alive == nil then known.is_alive = not known.is_silent and is_alive(node) end
      if known.is_alive then
        here = true
        local has
        if most > 0 then
          has = redis.call('SCARD', work_key(node, channel))
        else
          has = redis.call('SCARD', node_key(node, 'in:pending_pool'))
            + redis.call('SCARD', node_key(node, 'in:executing_pool'))
        end
        if most == 0 or has < most then
          seen = seen + 1
          if not best or has < least then best, least = node, has end
          if seen == 2 then return best, true end
        end
      end
    end
    -- Those drawn may all be gone or busy, where there are more.
    if best or count < LOOKED_AT then break end
    listeners = redis.call('SRANDMEMBER', listeners_key(channel), 1024)
  end
  return best, here
end

-- Where a call waits. A stock peer's tick breaks on a call that nobody is there for, so only those that
-- somebody is there for lie in the list that it reads.
local function enqueue(id, channel, seq, here)
  redis.call('ZADD', queue_key(channel), seq, id)
  redis.call('LREM', POOL_PENDING, '1', id)
  if here then
    redis.call('LPUSH', POOL_PENDING, id)
    redis.call('ZREM', PARKED, channel)
    redis.call('SADD', WAITING, channel)
  else
    unserved(channel)
  end
end

-- No call waits in a channel any more, perhaps.
local function forget_if_empty(channel)
  if redis.call('EXISTS', queue_key(channel)) == 1 then return end
  redis.call('SREM', WAITING, channel)
  redis.call('ZREM', PARKED, channel)
end

local function dequeue(id, channel)
  redis.call('ZREM', queue_key(channel), id)
  redis.call('LREM', POOL_PENDING, '1', id)
end

-- A fence that no call ever had, so that whoever still holds one of a call that is forgotten holds nothing of
-- another that has its id: larger than any before it, even if the clock went back, and not smaller than the
-- clock says, even if what was given before is lost.
local last_fence
local function next_fence()
  if not last_fence then
    local least = least_fence(t)
    local before = tonumber(redis.call('GETSET', FENCE, string.format('%d', least)) or '0')
    last_fence = math.max(before, least)
    if before < least then return string.format('%d', least) end
  end
  last_fence = last_fence + 1
  local fence = string.format('%d', last_fence)
  redis.call('SET', FENCE, fence)
  return fence
end

-- How many calls of a channel may be under way in a group; 0 for any number. Looked up once in a script.
local limits = {}
local function limit_of(channel)
  if not limits[channel] then
    limits[channel] = tonumber(redis.call('HGET', channel_key(channel), 'concurrent') or '0') or 0
  end
  return limits[channel]
end

-- Who a call of a channel can be offered to now; if nobody, whether anybody is here at all.
local function find(channel, group)
  local node, here = choose(channel)
  local limit = limit_of(channel)
  if limit > 0 and tonumber(redis.call('GET', group_key(channel, group)) or '0') >= limit then node = nil end
  return node, here
end

-- Gives a call to a node that was found, as what is written of it says already.
local function give(id, node, group, call, latest)
  local channel, until_at = call.channel, t + OFFER_TIMEOUT
  -- What is never let go lapses. That it is in use need not be said each time, and of what ours serve they do.
  local running = group_key(channel, group)
  local many, is_ours = redis.call('INCR', running), layout_of(node) == 'seed'
  if (many == 1 and not is_ours) or t % 32 == 0 then redis.call('EXPIRE', running, '86400') end
  redis.call('RPUSH', POOL_REQUEST_ACK, id)
  -- Whoever lets go of it takes it out of these again; what is left of a node lapses with it.
  redis.call('SADD', node_key(node, 'in:pending_pool'), id)
  count_open(node, 'in_pending_requests', 1)
  if is_ours then
    redis.call('SADD', work_key(node, channel), id)
  else
    -- A stock peer is told again before it is given up.
    until_at = t + math.min(OFFER_TIMEOUT, TELL_AGAIN)
  end
  set_due(id, math.min(latest, until_at))
  tell_work(id, node, call)
end

-- Tells a consumer of a call that waits, under a fence of its own. Says what became of it: 'offered',
-- 'gone' if it does not wait any more, 'later', 'full' or 'nobody'.
local function offer(id)
  local key = call_key(id)
  local call = redis.call('HMGET', key, 'state', 'channel', 'group_key', 'try_after', 'x_fence', 'created_at', 'x_seq',
    'timeout', 'x_offers', 'sender_node_id', 'params', 'x_deadline', 'x_begin_by', 'x_attempt', 'x_trace')
  local channel, group = call[2], call[3] or 'default'
  if call[1] ~= 'PENDING' or not channel then
    redis.call('LREM', POOL_PENDING, '1', id)
    if channel then redis.call('ZREM', queue_key(channel), id) end
    return 'gone'
  end
  if micros(call[4]) > t then
    dequeue(id, channel)
    set_due(id, micros(call[4]))
    return 'later'
  end
  local seq = call[7] or string.format('%d', micros(call[6]))
  if not call[5] then
    -- A stock peer's: what we need to know of it besides.
    redis.call('HSET', key, 'x_seq', seq, 'x_fence', '0', 'x_attempt', '0')
    local timeout = micros(call[8])
    if timeout > 0 then
      call[13] = string.format('%d', micros(call[6]) + timeout)
      redis.call('HSET', key, 'x_begin_by', call[13])
    end
    set_due(id, last_moment(call[12], call[13], call[14]))
  end
  local node, here = find(channel, group)
  if not node then
    enqueue(id, channel, seq, here)
    return here and 'full' or 'nobody'
  end
  dequeue(id, channel)
  local fence = next_fence()
  redis.call('HSET', key, 'state', 'WAIT_REQUEST_ACK', 'executor_node_id', node, 'request_executor_ack', '-1',
    'sent_to_executor_at', NOW, 'x_fence', fence, 'x_offers', tonumber(call[9] or '0') + 1,
    'x_until', string.format('%d', t + OFFER_TIMEOUT))
  give(id, node, group, { channel = channel, sender = call[10], params = call[11], fence = fence,
    attempt = tonumber(call[14] or '0') + 1, deadline = call[12], trace = call[15] },
    last_moment(call[12], call[13], call[14]))
  return 'offered'
end

-- Offers what waits in a channel, at most so many.
local function drain(channel, most)
  local passed, offered = 0, 0
  while offered < most and passed < PASSED_BY do
    local first = redis.call('ZRANGE', queue_key(channel), passed, passed)[1]
    if not first then break end
    local became = offer(first)
    if became == 'offered' then
      offered = offered + 1
    elseif became == 'nobody' then
      break
    elseif became == 'full' then
      passed = passed + 1
    end
  end
  if offered > 0 then served(channel) end
  forget_if_empty(channel)
  return offered
end

-- Nobody has the call any more.
local function release(id, call)
  local node, channel = call.executor, call.channel
  if call.state == 'WAIT_REQUEST_ACK' then
    redis.call('LREM', POOL_REQUEST_ACK, '1', id)
    count_open(node, 'in_pending_requests', -1)
    redis.call('SREM', node_key(node, 'in:pending_pool'), id)
  elseif call.state == 'EXECUTING' then
    if layout_of(node) ~= 'seed' then redis.call('LREM', POOL_EXECUTING, '-1', id) end
    count_open(node, 'in_executing_requests', -1)
    -- A stock peer that accepted it may have left it in the other.
    if redis.call('SREM', node_key(node, 'in:executing_pool'), id) == 0 then
      redis.call('SREM', node_key(node, 'in:pending_pool'), id)
    end
  else
    return
  end
  if layout_of(node) == 'seed' then redis.call('SREM', work_key(node, channel), id) end
  -- One that lapsed has none.
  local running = group_key(channel, call.group)
  if redis.call('DECR', running) < 0 then redis.call('DEL', running) end
end

-- A call, as far as most steps need it; nil if there is none or it is forgotten, and whether something of it is
-- left then.
local function load(id)
  local place = call_key(id)
  local call = redis.call('HMGET', place, 'state', 'executor_node_id', 'x_fence', 'sender_node_id',
    'channel', 'group_key', 'no_response', 'x_taken', 'x_forget', 'x_key', 'x_deadline', 'x_begin_by', 'x_attempt')
  if not call[1] then return nil, false end
  local forget = tonumber(call[9] or '')
  if forget and forget <= t then return nil, true end
  return { place = place, state = call[1], executor = call[2] or '', fence = call[3] or '0', sender = call[4] or NOBODY,
    channel = call[5] or '', group = call[6] or 'default', silent = call[7] == '1', taken = call[8],
    key = call[10], deadline = call[11], begin_by = call[12], attempt = call[13] or '0' }
end

-- Whether a node has it. A fence of '' is that of whoever could not be told one.
local function is_held(call, node, fence)
  local held = call.state == 'WAIT_REQUEST_ACK' or call.state == 'EXECUTING'
  return held and call.executor == node and (fence == '' or call.fence == fence)
end
