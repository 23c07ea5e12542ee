-- The gateway's time.
--
-- HAProxy's own time, core.now(), leaves out each time that HAProxy waits for its next event and gets no processor for more
-- than 100 ms: it takes that for a step of the system's clock. On a busy node, or at a CPU limit, a model would seem to have
-- been used later than it was. The system's uptime neither steps nor stops, and costs a read of a file.

local UPTIME = "/proc/uptime"

local clock = {}

local lost = 0    -- ms that HAProxy's own time has left out
local base        -- what the uptime is ahead of it otherwise
local latest = 0

-- HAProxy's own time, in ms.
function clock.own_ms()
    local now = core.now()
    return now.sec * 1000 + now.usec // 1000
end

-- Time in ms that never goes back. After catch_up() it is right; until the next one HAProxy may lose some again.
function clock.now_ms()
    latest = math.max(latest, clock.own_ms() + lost)
    return latest
end

local function uptime_ms()
    local file = io.open(UPTIME)
    if not file then
        return nil
    end
    local seconds = file:read("n")
    file:close()
    return seconds and math.floor(seconds * 1000)
end

-- Measures what HAProxy's own time has left out. To be called before it is said for how long a slot has been idle.
function clock.catch_up()
    local uptime = uptime_ms()
    if uptime then
        local ahead = uptime - clock.own_ms()
        base = base or ahead
        lost = ahead - base
    end
end

return clock
