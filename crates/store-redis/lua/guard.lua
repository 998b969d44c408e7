-- Takes or renews the guard's lease, keeps stock ticks from running, and says what there is to do.
--
-- A guardian's name begins with `g` if it does nothing else, with `c` if it is a client that does it
-- because nobody else was there; the first takes the guard from the second.
--
-- ARGV: rules, guardian, lease in milliseconds, how far ahead ticks are put off in microseconds,
--       how much of everything
-- Gives nothing if another one guards; else the time, calls that are due, calls that stock peers
-- brought, channels in which calls wait.
local guardian, lease, ahead, most = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local holder = redis.call('GET', 'origami:x:guardian')
local yields = holder and string.sub(holder, 1, 1) == 'c' and string.sub(guardian, 1, 1) == 'g'
if holder and holder ~= guardian and not yields then return false end
redis.call('SET', 'origami:x:guardian', guardian, 'PX', lease)
redis.call('SET', 'origami:tick:time', text(t + ahead))
redis.call('SET', 'origami:tick:lock', 1)
local due = redis.call('ZRANGEBYSCORE', DUE, '-inf', string.format('%d', t), 'LIMIT', 0, most)
-- New ones lie at the end; what we put back lies at the beginning.
local brought = {}
for _, id in ipairs(redis.call('LRANGE', POOL_PENDING, -most, -1)) do
  if redis.call('HEXISTS', call_key(id), 'x_fence') == 0 then brought[#brought + 1] = id end
end
local waiting = redis.call('SRANDMEMBER', WAITING, 64)
-- A peer that is not ours says to nobody that it serves a channel now, so those that nobody did are looked at,
-- some of them and seldom, however often somebody wakes us.
if redis.call('SET', 'origami:x:parked:look', 1, 'PX', 200, 'NX') then
  local parked = redis.call('ZRANGEBYSCORE', PARKED, '-inf', string.format('%d', t), 'LIMIT', 0, 32)
  for _, channel in ipairs(parked) do
    if redis.call('EXISTS', listeners_key(channel)) == 1 then
      waiting[#waiting + 1] = channel
    else
      redis.call('ZADD', PARKED, string.format('%d', t + PARKED_FOR), channel)
    end
  end
end
return { string.format('%d', t), due, brought, waiting }
