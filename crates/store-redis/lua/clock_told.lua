-- What time it is: what a test says. Stands in for clock.lua.
local function now()
  return tonumber(redis.call('GET', 'origami:x:now') or '0')
end
