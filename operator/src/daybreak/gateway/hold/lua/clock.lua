-- Time of the gateway.
--
-- HAProxy's own time, core.now(), omits each interval in which HAProxy waits for its next event and gets no
-- processor for more than 100 ms: HAProxy takes it for a step of the system clock. On a busy node, or at a
-- CPU limit, a model would seem to have been used later than it was. The system's uptime neither steps nor
-- stops, and costs one file read.

local UPTIME = "/proc/uptime"

local clock = {}

local lost = 0    -- ms that HAProxy's own time has omitted
local base        -- normal difference between the uptime and HAProxy's time
local latest = 0

-- Returns HAProxy's own time, in ms.
function clock.own_ms()
    local now = core.now()
    return now.sec * 1000 + now.usec // 1000
end

-- Returns a time in ms that never goes back. After catch_up() it is exact; until the next call HAProxy may
-- lose time again.
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

-- Measures the time that HAProxy's own time has omitted. Call it before reporting the idle time of a slot.
function clock.catch_up()
    local uptime = uptime_ms()
    if uptime then
        local ahead = uptime - clock.own_ms()
        base = base or ahead
        lost = ahead - base
    end
end

return clock
