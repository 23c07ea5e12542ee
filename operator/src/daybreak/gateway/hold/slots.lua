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
local AWAKE = os.getenv("DAYBREAK_AWAKE")            -- the map of the backends that small requests reach without Lua
local SMALL = tonumber(os.getenv("DAYBREAK_SMALL"))  -- bytes of the largest body of those
local MODELS = os.getenv("DAYBREAK_MODELS")          -- the map of models to backends
local SEVERAL = os.getenv("DAYBREAK_SEVERAL")        -- the map of ports whose services have several backends
local ADAPTERS = os.getenv("DAYBREAK_ADAPTERS")      -- the map of models that are LoRA adapters
local CHOICES = os.getenv("DAYBREAK_CHOICES")        -- the map of backends whose replicas choose.lua chooses
local QUEUES = os.getenv("DAYBREAK_QUEUES")          -- the map of backends to requests that may wait for a replica

-- Garbage is coroutines, three for each request: to collect it seldom costs less, and what lives is small.
collectgarbage("setpause", 400)

local slots = {
    all = {},      -- slot number -> what is known of its service
    waiting = {},  -- number of a held request -> its place
    seen = {},     -- slot number -> requests that have come to Lua, of whichever service
    owners = {},   -- name of a model's backend -> the slot whose requests it has
    choices = {},  -- name of a backend -> how a replica is chosen there
    queues = {},   -- name of a backend -> requests that may wait for a replica there
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

function slots.natural(word)
    local number = math.tointeger(tonumber(word))
    return number and number >= 0 and number or nil
end

-- A slot's number in a command's word; nil if there cannot be such a slot.
function slots.number(word)
    local number = slots.natural(word)
    return number and number < SLOTS and number or nil
end

-- HAProxy's counts of a slot's backends together: requests that came (stot), those that are here (scur), and the mean
-- time to connect. Most slots have one backend.
local function stats_of(slot)
    local stats = slot.backend:get_stats()
    local stot, scur, ctime = stats.stot, stats.scur, stats.ctime or 0
    for _, backend in pairs(slot.model_backends) do
        stats = backend:get_stats()
        stot, scur, ctime = stot + stats.stot, scur + stats.scur, math.max(ctime, stats.ctime or 0)
    end
    return stot, scur, ctime
end

local ANSWERS = { "1xx", "2xx", "3xx", "4xx", "5xx" }

-- Adds a backend's answers, by the class of their status, to a slot's.
local function add_answers(answers, backend, sign)
    local stats = backend:get_stats()
    for _, class in ipairs(ANSWERS) do
        answers[class] = (answers[class] or 0) + sign * (stats["hrsp_" .. class] or 0)
    end
end

-- A slot's answers by the class of their status, and the mean time until they began, in ms, of the latest ones.
function slots.answers(slot)
    local answers = {}
    add_answers(answers, slot.backend, 1)
    local response_ms = slot.backend:get_stats().rtime or 0
    for _, backend in pairs(slot.model_backends) do
        add_answers(answers, backend, 1)
        response_ms = math.max(response_ms, backend:get_stats().rtime or 0)
    end
    for class, before in pairs(slot.answers_before) do
        answers[class] = answers[class] - before
    end
    return answers, response_ms
end

-- Requests that have gone to the model without coming to Lua, of whichever service had the slot: HAProxy counts all
-- that reach the backends.
local function went_past(slot, stot)
    return stot - (slots.seen[slot.number] or 0)
end

function slots.fresh(number)
    local slot = {
        number = number, backend = core.backends["s" .. number], model_backends = {}, keys = {}, reason = "", name = "",
        models = {}, has = {}, adapters = {}, backends = {}, choices = {}, queues = {}, mapped = {}, chosen = {}, queued = {},
        replicas_listen = 0,
        past_lua = false,  -- whether small requests go to the model without coming to Lua
        went = 0, arrivals = 0, swept = 0, held = 0, joined = 0, left = 0, ends = {}, busy = false,
        last = now_ms(), tokens = 0, filled = now_ms(), wakes = 0, connect_ms = 0,
    }
    -- Those of earlier services.
    slot.before = went_past(slot, stats_of(slot))
    slot.answers_before = {}
    add_answers(slot.answers_before, slot.backend, 1)
    return slot
end

local function give_up(slot, name)
    local backend = slot.model_backends[name]
    if backend then
        slot.model_backends[name] = nil
        slot.before = slot.before - backend:get_stats().stot
        add_answers(slot.answers_before, backend, -1)
        slots.owners[name] = nil
    end
end

local function take(slot, name)
    if slots.owners[name] == slot then
        return
    end
    if slots.owners[name] then
        give_up(slots.owners[name], name)
    end
    slots.owners[name] = slot
    slot.model_backends[name] = core.backends[name]
    slot.before = slot.before + core.backends[name]:get_stats().stot
    add_answers(slot.answers_before, core.backends[name], 1)
end

-- How a replica is chosen for a model, from a word of a command: <policy>:<most>:<spare>.
local function choice_of(word)
    local policy, most, spare = (word or ""):match("^(%l+):(%d+):(%d+)$")
    return policy and { policy = policy, most = slots.natural(most), spare = slots.natural(spare) }
end

-- Notes something of a slot's backends, in a table and for HAProxy in a map. What another slot has noted since stays.
local function note(noted, map, before, now, word)
    for name in pairs(before) do
        if not now[name] and noted[name] == before[name] then
            noted[name] = nil
            core.del_map(map, name)
        end
    end
    for name, value in pairs(now) do
        noted[name] = value
        core.set_map(map, name, word(value))
    end
    return now
end

-- Says to HAProxy which backend has the requests for each of a slot's models. To be called when a slot was set.
function slots.note_models(slot)
    local port, mapped, several, chosen, queued = FIRST_PORT + slot.number, {}, false, {}, {}
    for at, name in ipairs(slot.gate == "unset" and {} or slot.models) do
        local key, backend = port .. "/" .. name, "s" .. slot.number
        local number = slots.natural(slot.backends[at])
        if number and core.backends["m" .. number] then
            backend, several = "m" .. number, true
            take(slot, backend)
        end
        chosen[backend] = chosen[backend] or choice_of(slot.choices[at])
        local most = slots.natural(slot.queues[at])
        queued[backend] = queued[backend] or most and { most = most }
        several = several or (chosen[backend] or {}).policy == "prefix"
        mapped[key] = backend
        if slot.mapped[key] ~= backend then
            core.set_map(MODELS, key, backend)
        end
    end
    for key in pairs(slot.mapped) do
        if not mapped[key] then
            core.del_map(MODELS, key)
        end
    end
    for name in pairs(slot.adapts or {}) do
        core.del_map(ADAPTERS, name)
    end
    slot.adapts = {}
    for _, name in ipairs(slot.gate == "unset" and {} or slot.adapters) do
        slot.adapts[port .. "/" .. name] = true
        core.set_map(ADAPTERS, port .. "/" .. name, "1")
    end
    if several ~= (slot.several or false) then
        if several then
            core.set_map(SEVERAL, tostring(port), "1")
        else
            core.del_map(SEVERAL, tostring(port))
        end
    end
    slot.mapped, slot.several = mapped, several
    slot.chosen = note(slots.choices, CHOICES, slot.chosen, chosen, function(choice) return choice.policy end)
    slot.queued = note(slots.queues, QUEUES, slot.queued, queued, function(queue) return tostring(queue.most) end)
end

-- Whether a replica's own server is up in a backend: the Serve proxy is a backup server there.
function slots.replica_up(slot, backend)
    return slot.replicas_listen == 1 and backend:get_srv_act() > 0
end

local function note_backend(slot, name, backend)
    local how = slot.past_lua and (slots.replica_up(slot, backend) and "replicas" or "proxies")
    if how then
        core.set_map(AWAKE, name, how)
    else
        core.del_map(AWAKE, name)
    end
end

-- Opens or closes the way past Lua. To be called when a slot was set, or a server has come up or gone down.
function slots.note_past_lua(slot)
    local past_lua = slot.gate == "open" and #slot.keys == 0 and slot.max_body_bytes >= SMALL
    slot.busy = slot.busy or slot.past_lua and not past_lua  -- perhaps: nobody has looked since
    slot.past_lua = past_lua
    note_backend(slot, "s" .. slot.number, slot.backend)
    for name, backend in pairs(slot.model_backends) do
        note_backend(slot, name, backend)
    end
end

-- How many servers of a backend are up; the backup servers together count as one, where there is no other.
function slots.servers_up(backend)
    local active = backend:get_srv_act()
    return active > 0 and active or math.min(1, backend:get_stats().bck)
end

-- backend: that of the request. for_replicas: whether the Serve proxy cannot answer it.
function slots.can_pass(slot, backend, for_replicas)
    return slot.gate == "open" and slots.servers_up(backend) > 0 and (not for_replicas or slots.replica_up(slot, backend))
end

-- Remembers since when requests can pass. To be called when that may have changed.
function slots.note_passing(slot)
    slot.passes_since = slots.can_pass(slot, slot.backend) and (slot.passes_since or now_ms()) or nil
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

-- A model that has gone: its backend belongs to the slot until the last of its requests has ended.
local function drop_unused(slot)
    for name, backend in pairs(slot.model_backends) do
        local used = false
        for _, number in ipairs(slot.backends) do
            used = used or name == "m" .. number
        end
        if not used and backend:get_stats().scur == 0 then
            give_up(slot, name)
        end
    end
end

-- Requests of a slot that have passed its gate and have not ended. HAProxy counts the streams of a backend, held
-- ones included. Asking costs something, so nobody asks for a slot that was empty and had no arrival since.
function slots.in_flight(slot, now)
    if not slot.busy and not slot.past_lua then
        return 0
    end
    local came, streams, connect_ms = stats_of(slot)
    slot.connect_ms = connect_ms
    local more = went_past(slot, came) - slot.before - slot.went
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
    drop_unused(slot)
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
    local slot = slots.all[slots.number(data.proxy_name:match("^s(%d+)$"))] or slots.owners[data.proxy_name]
    if slot then
        slots.note_passing(slot)
        slots.note_past_lua(slot)
        slots.changed(slot)
    end
end)

return slots
