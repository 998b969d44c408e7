-- What time it is: what a test says. Stands in for clock.lua.
local function now()
  return tonumber(redis.call('GET', 'origami:x:now') or '0')
end

-- What a fence is at least: what a test says.
local function least_fence() return tonumber(redis.call('GET', 'origami:x:fence:least') or '1') end
