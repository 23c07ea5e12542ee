-- What the gateway knows of each service: its slot. Shared by the hold, the look at bodies and the admin socket.
--
-- HAProxy has one thread, so nothing in here runs at the same time as anything else.

local answers = require("answers")

local SLOTS = tonumber(os.getenv("DAYBREAK_SLOTS"))
local FIRST_PORT = tonumber(os.getenv("DAYBREAK_FIRST_PORT"))
local BOUNDS = {}  -- upper bounds in ms of what is measured
for name, variable in pairs({ holds = "DAYBREAK_HOLD_BUCKETS", added = "DAYBREAK_ADDED_BUCKETS" }) do
    BOUNDS[name] = {}
    for seconds in os.getenv(variable):gmatch("[^ ]+") do
        table.insert(BOUNDS[name], tonumber(seconds) * 1000)
    end
end
local UNTOLD_LOOK = 50  -- ms between two looks at whether a service has been told meanwhile
local SWEEP = 500  -- ms between two looks at who is still in flight
local DIRECT = os.getenv("DAYBREAK_DIRECT")          -- the map of the backends that small requests reach without Lua
local SMALL = tonumber(os.getenv("DAYBREAK_SMALL"))  -- bytes of the largest body of those

-- Garbage is coroutines, three for each request: to collect it seldom costs less, and what lives is small.
collectgarbage("setpause", 400)

local slots = {
    all = {},      -- slot number -> what is known of its service
    waiting = {},  -- number of a held request -> its place
    seen = {},     -- slot number -> requests that have come to Lua, of whichever service
    ready = false, -- whether every service that there is has been told
    boot = string.format("%d.%06d", core.now().sec, core.now().usec),
    -- Number of the latest change of any slot. It begins with the time, so that a number of an earlier HAProxy is
    -- older than every change of this one: who asks with it hears everything.
    sequence = core.now().sec * 1000000 + core.now().usec,
}

function slots.now_ms()
    local now = core.now()
    return now.sec * 1000 + now.usec // 1000
end

local now_ms = slots.now_ms

-- The number of a request's slot, by the port that it came to.
function slots.number_of(txn)
    return txn.f:dst_port() - FIRST_PORT
end

-- The slot that a request is meant for; nil if it is to be asked for again in a moment. Where there is none, it is
-- answered 404.
function slots.meant(txn, number)
    local slot = slots.all[number]
    if not slot and slots.ready then
        answers.no_service(txn)
    end
    if not slot then
        -- A gateway that has just started: the service may be told in a moment, and a 404 would be final.
        act.wake_time(UNTOLD_LOOK)
    end
    return slot
end

-- A slot's number in a command's word; nil if there cannot be such a slot.
function slots.number(word)
    local number = math.tointeger(tonumber(word))
    return number and number >= 0 and number < SLOTS and number or nil
end

-- How many requests have gone to the model without coming to Lua, of whichever service had the slot: HAProxy counts
-- all that reach the backend.
local function went_directly(number, stats)
    return stats.stot - (slots.seen[number] or 0)
end

function slots.fresh(number)
    local backend = core.backends["s" .. number]
    return {
        number = number, backend = backend, models = {}, has = {}, keys = {}, reason = "", name = "",
        direct = false,  -- whether small requests go to the model without coming to Lua
        before = went_directly(number, backend:get_stats()), went = 0,  -- those of earlier services, and of this one
        arrivals = 0, swept = 0, held = 0, joined = 0, left = 0, ends = {}, busy = false,
        last = now_ms(), tokens = 0, filled = now_ms(), wakes = 0, connect_ms = 0,
    }
end

-- Opens or closes the way past Lua. To be called when a slot was set.
function slots.note_direct(slot)
    local direct = slot.gate == "open" and #slot.keys == 0 and slot.max_body_bytes >= SMALL
    if direct == slot.direct then
        return
    end
    slot.direct = direct
    if direct then
        core.set_map(DIRECT, "s" .. slot.number, "1")
    else
        core.del_map(DIRECT, "s" .. slot.number)
        slot.busy = true  -- perhaps: nobody has looked since
    end
end

function slots.can_pass(slot)
    return slot.gate == "open" and slot.backend:get_srv_act() > 0
end

-- Remembers since when requests can pass. To be called when that may have changed.
function slots.note_passing(slot)
    slot.passes_since = slots.can_pass(slot) and (slot.passes_since or now_ms()) or nil
end

-- Takes in a time: "holds" or "added". Only of requests that were held, so who passes at once pays nothing.
function slots.observe(slot, name, ms)
    local bounds, found = BOUNDS[name], slot[name]
    if not found then
        found = { sum = 0, counts = {} }
        for at = 1, #bounds + 1 do
            found.counts[at] = 0
        end
        slot[name] = found
    end
    local at = 1
    while bounds[at] and ms > bounds[at] do
        at = at + 1
    end
    found.counts[at] = found.counts[at] + 1
    found.sum = found.sum + ms
end

function slots.changed(slot)
    slots.sequence = slots.sequence + 1
    slot.changed = slots.sequence
end

-- A request has left the gate, or was turned away at it.
function slots.count(slot, reason)
    slot.ends[reason] = (slot.ends[reason] or 0) + 1
    slots.changed(slot)
end

-- Requests of a slot that have passed its gate and have not ended. HAProxy counts the streams of a backend, held
-- ones included. Asking costs something, so nobody asks for a slot that was empty and had no arrival since.
function slots.in_flight(slot, now)
    if not slot.busy and not slot.direct then
        return 0
    end
    local stats = slot.backend:get_stats()
    local streams = stats.scur
    slot.connect_ms = stats.ctime or 0
    local more = went_directly(slot.number, stats) - slot.before - slot.went
    if more > 0 then
        slot.went = slot.went + more
        slot.arrivals = slot.arrivals + more
        slot.ends.passed = (slot.ends.passed or 0) + more
    end
    if streams > 0 or slot.swept ~= slot.arrivals then
        -- What began and ended between two looks ended now, as far as anybody knows: never idle for too long.
        slot.last = now
        slot.busy = true
    elseif slot.busy then
        slot.busy = false
        slots.changed(slot)
    end
    slot.swept = slot.arrivals
    return math.max(0, streams - slot.held)
end

core.register_task(function()
    while true do
        local now = now_ms()
        for _, slot in pairs(slots.all) do
            slots.in_flight(slot, now)
        end
        core.msleep(SWEEP)
    end
end)

core.event_sub({ "SERVER_UP", "SERVER_DOWN" }, function(_, data)
    local slot = slots.all[slots.number(data.proxy_name:match("^s(%d+)$"))]
    if slot then
        slots.note_passing(slot)
        slots.changed(slot)
    end
end)

return slots
