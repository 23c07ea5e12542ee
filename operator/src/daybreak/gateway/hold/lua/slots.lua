-- State of each gate in the gateway: its slot. The hold, the body check and the admin socket share it.
--
-- A slot is a backend of HAProxy. A service with one model has its own backend (s<N>, by its port), and so
-- one gate. A service with several models has a gate for each, and one more, the front, for requests whose
-- model is not known.
--
-- HAProxy has one thread, so no code here runs concurrently.

local again = require("again")
local answers = require("answers")
local clock = require("clock")
local garbage = require("garbage")
local pause = require("pause")

local SLOTS = tonumber(os.getenv("DAYBREAK_SLOTS"))
local FIRST_PORT = tonumber(os.getenv("DAYBREAK_FIRST_PORT"))
local BOUNDS = {}  -- upper bounds of measured times, in ms
for name, variable in pairs({ holds = "DAYBREAK_HOLD_BUCKETS", added = "DAYBREAK_ADDED_BUCKETS" }) do
    BOUNDS[name] = {}
    for seconds in os.getenv(variable):gmatch("[^ ]+") do
        table.insert(BOUNDS[name], tonumber(seconds) * 1000)
    end
end
local UNTOLD_LOOK = 50  -- ms between two checks whether a service has been configured
local SWEEP = 500  -- ms between two checks of requests in flight
local MANY_CHANGES = 1000  -- from this number of changes on, all slots are checked instead
local LATELY = 2000  -- ms: a service with a request within this time lets small requests bypass Lua
local AWAKE = os.getenv("DAYBREAK_AWAKE")            -- the map of backends that small requests reach without Lua
local SMALL = tonumber(os.getenv("DAYBREAK_SMALL"))  -- maximum bytes of the body of such a request
local MODELS = os.getenv("DAYBREAK_MODELS")          -- the map of models to backends
local FRONTS = os.getenv("DAYBREAK_FRONTS")          -- the map of ports with awaited bodies to backends
local ADAPTERS = os.getenv("DAYBREAK_ADAPTERS")      -- the map of models that are LoRA adapters
local ORIGINS = os.getenv("DAYBREAK_ORIGINS")        -- the map of origins whose pages may read responses
local CHOICES = os.getenv("DAYBREAK_CHOICES")        -- the map of backends whose replicas choose.lua chooses
local QUEUES = os.getenv("DAYBREAK_QUEUES")          -- the map of backends to requests that may wait

local CHECKS = os.getenv("DAYBREAK_CHECKS")          -- the map of backends to paths of health checks
local GUARDS = os.getenv("DAYBREAK_GUARDS")          -- the map of backends and ports that check bodies
local ROUTES = os.getenv("DAYBREAK_ROUTES")          -- the map of allowed path prefixes, if not all pass
local PROBES = os.getenv("DAYBREAK_PROBES")          -- the map of requests that do not count as activity
local PROBE_USES = "probe_uses"                      -- the table of the number of those requests
local PATHS = os.getenv("DAYBREAK_PATHS")            -- the map of ports that allow any path

-- Empty value of slots, shared by all of them and never modified.
local NONE = {}
local NO_NAMES = { names = NONE, has = NONE }

local slots = {
    NONE = NONE,
    all = {},      -- name of a backend -> state of its gate
    fronts = {},   -- port of a service -> the slot of its requests whose model is not known
    leads = {},    -- <port>/<model> -> the slot of its requests
    waiting = {},  -- number of a held request -> its place
    seen = {},     -- name of a backend -> requests that reached Lua there, without health checks
    probes_seen = {},  -- the same for health checks, which are not activity
    ready = false, -- whether all existing services are configured
    boot = string.format("%d.%06d", core.now().sec, core.now().usec),
    -- Number of the latest change of any slot. It starts with the time, so that a number from an earlier
    -- HAProxy is older than every change of this one: a query with it returns all slots.
    sequence = core.now().sec * 1000000 + core.now().usec,
}

local adapters = {}  -- <port>/<adapter> -> the slot that has it
local origins = {}   -- <port>/<origin> -> the slot that allows it
local routes = {}    -- <port>/<prefix>/ -> the slot that allows it
local probes = {}    -- <port>/<mark> -> the slot for which a request with that mark is no activity
local used = {}      -- slots that may have requests in flight, as keys
local by_change = {} -- the slot whose latest change has a number
local told = 0       -- number of slots

garbage.bound(told)

local now_ms = clock.now_ms

-- Returns the slot of a service's front by the port of a request.
function slots.front_at(port)
    return slots.fronts[port] or slots.all["s" .. port - FIRST_PORT]
end

function slots.front_of(txn)
    return slots.front_at(txn.f:dst_port())
end

-- Handles a request without a slot: it checks again shortly, or is answered 404. own: whether the request is
-- for the service itself, which does not exist if all services are configured; a model may still be
-- configured shortly. waits: a variable of the request, a separate one for each action: whether the request
-- already waits here.
function slots.unknown(txn, own, waits)
    if own and slots.ready then
        answers.respond(txn, "service_not_found")
    end
    -- A gateway that has just started may receive the service shortly, and a 404 would be final.
    local before = txn:get_var(waits)
    txn:set_var(waits, true)
    return pause(UNTOLD_LOOK, before)
end

function slots.natural(word)
    local number = math.tointeger(tonumber(word))
    return number and number >= 0 and number or nil
end

-- Returns the name of a backend that can be a slot, from a word of a command; nil if there is no such
-- backend.
function slots.backend_name(word)
    return word and word:find("^[sm]%d+$") and core.backends[word] and word or nil
end

-- Returns a service's port by its backend's name; nil for the backend of a model.
function slots.own_port(name)
    local number = slots.natural(name:match("^s(%d+)$"))
    return number and number < SLOTS and FIRST_PORT + number or nil
end

local ANSWERS = { "1xx", "2xx", "3xx", "4xx", "5xx" }

-- Returns a slot's responses by status class, and the mean time in ms until the latest ones began.
function slots.answers(slot)
    local stats, found = slot.backend:get_stats(), {}
    for _, class in ipairs(ANSWERS) do
        local name = "hrsp_" .. class
        found[class] = (stats[name] or 0) - again.answers(slot, name) - (slot.answers_before[class] or 0)
    end
    return found, stats.rtime or 0
end

-- Returns the current and the total number of a backend's health checks, which do not count as activity.
local function probes_of(id)
    local row = core.proxies[PROBE_USES].stktable:lookup(id)
    return row and row.conn_cur or 0, row and row.http_req_cnt or 0
end

-- Returns the numbers of requests that bypassed Lua, for any gate that had the backend: those that count as
-- activity, and health checks. HAProxy counts all requests that reach the backend. probed: the health checks
-- among them.
local function went_past(slot, stot, probed)
    return stot - probed - (slots.seen[slot.id] or 0), probed - (slots.probes_seen[slot.id] or 0)
end

function slots.fresh(id)
    local slot = {
        id = id, backend = core.backends[id], port = slots.own_port(id), uid = "", service = "", model = "",
        reason = "", paths = "",
        keys = NONE, models = NONE, has = NONE, adapters = NONE, listed = NO_NAMES, extra = NONE,
        mapped = NONE, adapted = NONE, origins = NONE, let = NONE, routes = NONE, routed = NONE, answers_before = NONE,
        probes = NONE, probed = NONE,
        replicas_listen = 0, front = 0, waits = 0, guarded = 0,
        gone = nil,        -- the response to requests once the gate has been removed
        past_lua = false,  -- whether small requests bypass Lua; if so, which servers answer
        went = 0, probes_went = 0, arrivals = 0, swept = 0, held = 0, joined = 0, left = 0, ends = {}, busy = false,
        only_held = false,  -- whether all of its streams are held: while they are, Lua notices every change
        came = {}, oldest = 1,  -- arrival times of held requests, by order; the lowest possible order
        last = now_ms(), tokens = 0, filled = now_ms(), wakes = 0, connect_ms = 0,
    }
    -- Counts of earlier gates.
    slot.before, slot.probes_before = went_past(slot, slot.backend:get_stats().stot, select(2, probes_of(id)))
    local answers = slots.answers(slot)
    for _, count in pairs(answers) do
        slot.answers_before = count ~= 0 and answers or slot.answers_before
    end
    return slot
end

-- Returns the replica selection from a word of a command: <policy>:<most>:<spare>.
function slots.choice_of(word)
    local policy, most, spare = (word or ""):match("^(%l+):(%d+):(%d+)$")
    return policy and { policy = policy, most = slots.natural(most), spare = slots.natural(spare) }
end

-- Sets the value of a key in a map of HAProxy; nil: deletes the key.
local function note(map, key, value)
    if value then
        core.set_map(map, key, value)
    else
        core.del_map(map, key)
    end
end

-- Sets a slot's entries in a map to those of its names, and records the slot as their owner. Entries that
-- another slot has taken over stay. Returns the keys.
local function own_entries(map, owners, slot, before, names, value)
    local now = NONE
    for _, name in ipairs(slot.gone and NONE or names) do
        local key = slot.port .. "/" .. name
        now = now ~= NONE and now or {}
        now[key] = true
        if owners[key] ~= slot then
            owners[key] = slot
            core.set_map(map, key, value)
        end
    end
    for key in pairs(before) do
        if not now[key] and owners[key] == slot then
            owners[key] = nil
            core.del_map(map, key)
        end
    end
    return now
end

-- Configures in HAProxy which requests belong to a slot, and how a replica is selected. Call it when the slot
-- was set.
function slots.note_models(slot)
    local id = slot.id
    slot.mapped = own_entries(MODELS, slots.leads, slot, slot.mapped, slot.models, id)
    slot.adapted = own_entries(ADAPTERS, adapters, slot, slot.adapted, slot.adapters, "1")
    slot.let = own_entries(ORIGINS, origins, slot, slot.let, slot.origins, "1")
    slot.routed = own_entries(ROUTES, routes, slot, slot.routed, slot.routes, "1")
    slot.probed = own_entries(PROBES, probes, slot, slot.probed, slot.probes, "1")
    if slot.front == 1 and not slot.gone then
        slots.fronts[slot.port] = slot
        note(FRONTS, tostring(slot.port), slot.waits == 1 and id)
        note(PATHS, tostring(slot.port), slot.paths ~= "" and slot.paths)
        note(PROBES, slot.port .. ":", #slot.probes > 0 and "1")  -- not the beginning of another entry
    elseif slot.gone and slots.fronts[slot.port] == slot then
        slots.fronts[slot.port] = nil
        note(FRONTS, tostring(slot.port), nil)
        note(PATHS, tostring(slot.port), nil)
        note(PROBES, slot.port .. ":", nil)
    end
    note(CHOICES, id, not slot.gone and slot.choice and slot.choice.policy)
    note(QUEUES, id, not slot.gone and slot.queue and tostring(slot.queue))
    -- Removed gates keep their entry, because their streams continue on healthy servers.
    note(CHECKS, id, slot.check and slot.check ~= "" and slot.check)
end

-- Returns whether a replica's own server is up; the Serve proxy is a backup server in addition.
function slots.replica_up(slot)
    return slot.replicas_listen == 1 and slot.backend:get_srv_act() > 0
end

-- Allows or forbids unchecked bodies. most: maximum bytes; nil: forbidden. The port alone identifies the slot
-- of a request if the service has no other slots and does not choose replicas by bodies.
local function set_unlooked(slot, most)
    local port = slot.front == 1 and slot.waits == 0 and most or nil
    if most ~= slot.unlooked then
        slot.unlooked = most
        note(GUARDS, slot.id, most)
    end
    if port ~= slot.unlooked_at_port then
        slot.unlooked_at_port = port
        note(GUARDS, tostring(slot.port), port)
    end
end

-- Opens or closes the bypass of Lua. way: "replicas" or "proxies", whichever answer; false: closed.
local function set_past_lua(slot, way)
    if way ~= slot.past_lua then
        slot.past_lua = way
        if way then
            used[slot] = true
        end
        note(AWAKE, slot.id, way)
    end
    local unlooked = way == "replicas" and slot.guarded == 1 and slot.paths == ""
    set_unlooked(slot, unlooked and tostring(slot.max_body_bytes) or nil)
end

-- Opens or closes the bypass of Lua. Call it when a slot was set, a server has come up or gone down, or a
-- request has passed. Only HAProxy counts requests on the bypass, and a query is expensive. Therefore the
-- first request after a pause does not use it, and idle slots are not queried.
function slots.note_past_lua(slot)
    local way = slot.gate == "open" and not slot.gone and slot.max_body_bytes >= SMALL and
        now_ms() - slot.last <= LATELY and slots.servers_up(slot) > 0 and
        (slots.replica_up(slot) and "replicas" or "proxies")
    slot.busy = slot.busy or slot.past_lua and not way  -- possibly: there was no check since
    set_past_lua(slot, way)
end

-- Returns the number of a slot's servers that are up; backup servers together count as one, if there is no
-- other.
function slots.servers_up(slot)
    local active = slot.backend:get_srv_act()
    return active > 0 and active or math.min(1, again.backups_up(slot))
end

-- Returns whether a request can pass. for_replicas: whether the Serve proxy cannot answer it.
function slots.can_pass(slot, for_replicas)
    return slot.gate == "open" and slots.servers_up(slot) > 0 and (not for_replicas or slots.replica_up(slot))
end

-- Records since when requests can pass. Call it when that may have changed.
function slots.note_passing(slot)
    slot.passes_since = slots.can_pass(slot) and (slot.passes_since or now_ms()) or nil
end

-- Call it when a slot was set, or a server has come up or gone down. The order ensures that no request passes
-- that no server accepts.
function slots.note_servers(slot)
    slots.note_passing(slot)
    slots.note_past_lua(slot)
    again.note(slot, slots.servers_up(slot) > 0)
end

-- Records a duration: "holds" or "added". It is called for held requests only, so it costs nothing for
-- requests that pass at once.
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

local function is_told(slot)
    return slots.all[slot.id] == slot
end

function slots.changed(slot)
    if slot.changed then
        by_change[slot.changed] = nil
    end
    slots.sequence = slots.sequence + 1
    slot.changed = slots.sequence
    by_change[slot.changed] = is_told(slot) and slot or nil
end

-- Returns the slots that have changed since, as keys. An agent polls every 80 ms, so it must not iterate a
-- thousand slots for one change.
function slots.changed_since(sequence)
    local found = {}
    if slots.sequence - sequence > MANY_CHANGES then
        for _, slot in pairs(slots.all) do
            found[slot] = slot.changed > sequence or nil
        end
        return found
    end
    for number = sequence + 1, slots.sequence do
        local slot = by_change[number]
        if slot and is_told(slot) then
            found[slot] = true
        end
    end
    return found
end

-- Marks a slot as used by a request.
function slots.use(slot)
    slot.busy = true
    used[slot] = true
end

-- Adds a slot to those that are reported.
function slots.add(slot)
    if not is_told(slot) then
        slots.all[slot.id] = slot
        told = told + 1
        garbage.bound(told)
    end
end

-- Removes a slot from those that are reported.
function slots.forget(slot)
    slots.all[slot.id] = nil
    told = told - 1
    garbage.bound(told)
    used[slot] = nil
    by_change[slot.changed] = nil
end

-- Counts a request that left the gate or was rejected at it. number: of requests; nil: one.
function slots.count(slot, reason, number)
    slot.ends[reason] = (slot.ends[reason] or 0) + (number or 1)
    slots.changed(slot)
end

-- Returns for how long the oldest held request of a slot has waited, in ms; 0: none is held. Each departed
-- request is skipped only once, so the cost does not depend on the number of held requests.
function slots.held_ms(slot, now)
    while slot.oldest <= slot.joined and not slot.came[slot.oldest] do
        slot.oldest = slot.oldest + 1
    end
    return now - (slot.came[slot.oldest] or now)
end

-- Returns the number of a slot's requests that have passed its gate and have not ended. HAProxy counts the
-- streams of a backend, held ones included. A query is expensive, so a slot that was empty and had no arrival
-- since is not queried.
function slots.in_flight(slot, now)
    if not slot.busy and not slot.past_lua then
        used[slot] = nil
        return 0
    end
    local stats = slot.backend:get_stats()
    local streams = stats.scur
    slot.connect_ms = stats.ctime or 0
    local probing, probed = probes_of(slot.id)
    local uses, probes_past = went_past(slot, stats.stot, probed)
    local more, more_probes = uses - slot.before - slot.went, probes_past - slot.probes_before - slot.probes_went
    if more > 0 then
        slot.went = slot.went + more
        slot.arrivals = slot.arrivals + more
        slot.ends.passed = (slot.ends.passed or 0) + more
    end
    if more_probes > 0 then
        slot.probes_went = slot.probes_went + more_probes
        slots.count(slot, "health_check", more_probes)
    end
    if streams > probing or slot.swept ~= slot.arrivals then
        -- A request that began and ended between two checks counts as ended now, so the idle time is never
        -- too long.
        slot.last = now
        slot.busy = true
    elseif streams > 0 then
        slot.busy = true  -- it is in flight until its end is noticed
    elseif slot.busy then
        slot.busy = false
        slots.changed(slot)
    end
    slot.swept = slot.arrivals
    local only_held = streams > 0 and streams <= slot.held
    if only_held and not slot.only_held then
        slots.changed(slot)  -- the last of the other requests has ended
    end
    slot.only_held = only_held
    if slot.past_lua and not slot.busy and now - slot.last > LATELY then
        set_past_lua(slot, false)  -- no request can have passed since the last query
    end
    return math.max(0, streams - slot.held - again.streams(slot))
end

-- Queries HAProxy for the slots that may have requests in flight. Returns their numbers of requests, and the
-- time.
function slots.look()
    clock.catch_up()
    local now, found = now_ms(), {}
    for slot in pairs(used) do
        if is_told(slot) then
            found[slot] = slots.in_flight(slot, now)
        else
            used[slot] = nil
        end
    end
    return found, now
end

core.register_task(function()
    while true do
        slots.look()
        core.msleep(SWEEP)
    end
end)

core.event_sub({ "SERVER_UP", "SERVER_DOWN" }, function(_, data)
    local slot = slots.all[data.proxy_name]
    if slot and not again.is(data.name) then
        slots.note_servers(slot)
        slots.changed(slot)
    end
end)

return slots
