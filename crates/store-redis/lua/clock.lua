-- What time it is: Redis' own clock, in microseconds since 1970. Every peer of one Redis shares it.
local function now()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- What a fence is at least. A Redis that lost what it knew, or the last second of it, has no other way to tell
-- which fences it gave before; and whoever holds one of those outlived it.
local function least_fence(t) return t end
