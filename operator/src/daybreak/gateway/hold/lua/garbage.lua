-- Bounds the amount of garbage that Lua keeps before it collects.
--
-- Most of it is coroutines, three for each request. Collecting rarely costs less, so there may be three times
-- as much garbage as live memory. With a thousand slots that would be more than the rest of Lua's memory, so
-- the factor is lower then.

local MOST = 4 * 2 ^ 20       -- bytes of garbage, approximately
local OWN = 400 * 2 ^ 10      -- live bytes without a slot
local SLOT = 4 * 2 ^ 10       -- live bytes of each slot
local LEAST, PAUSE = 150, 400 -- percent of the live memory at which it collects

local garbage = {}

-- Sets the bound. Call it when the number of slots has changed.
function garbage.bound(slots)
    local room = 100 * MOST // (OWN + slots * SLOT)
    collectgarbage("setpause", math.tointeger(math.min(PAUSE, math.max(LEAST, 100 + room))))
end

return garbage
