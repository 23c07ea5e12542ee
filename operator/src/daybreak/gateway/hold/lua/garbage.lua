-- How much garbage Lua lets lie before it collects it.
--
-- Most of it is coroutines, three for each request: to collect it seldom costs less, so there may be three times as much as of
-- what lives. Not beside a thousand slots, where that would be more than all the rest of Lua's memory.

local MOST = 4 * 2 ^ 20       -- bytes of garbage, about
local OWN = 400 * 2 ^ 10      -- bytes that live without a slot
local SLOT = 4 * 2 ^ 10       -- bytes that live of each
local LEAST, PAUSE = 150, 400 -- percent of what lives at which it collects

local garbage = {}

-- To be called when there are more slots or fewer.
function garbage.bound(slots)
    local room = 100 * MOST // (OWN + slots * SLOT)
    collectgarbage("setpause", math.tointeger(math.min(PAUSE, math.max(LEAST, 100 + room))))
end

return garbage
