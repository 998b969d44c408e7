-- What time it is: Redis' own clock, in microseconds since 1970. Every peer of one Redis shares it.
local function now()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
