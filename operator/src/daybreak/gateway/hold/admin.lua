-- The admin socket: how the gateway is told of services, and tells of them.

local percent = require("percent")
local quoted = require("answers").quoted
local slots = require("slots")

local all, waiting = slots.all, slots.waiting

local NUMBERS = { epoch = true, hold_ms = true, max_held = true, max_body_bytes = true, retry_after = true,
    replicas_listen = true }

local function list(value)
    local items = {}
    for item in value:gmatch("[^,]+") do
        items[#items + 1] = percent.decoded(item)
    end
    return items
end

local function set_of(items)
    local found = {}
    for _, item in ipairs(items) do
        found[item] = true
    end
    return found
end

-- daybreak set <slot> key=value ...: values are percent-encoded, models and keys separated by commas.
local function set(applet, _, _, number, ...)
    number = slots.number(number)
    if not number then
        applet:send("error: no such slot\n")
        return
    end
    local slot = all[number] or slots.fresh(number)
    local before = slot.gate
    for _, word in ipairs({ ... }) do
        local key, value = word:match("^([%w_]+)=(.*)$")
        if key == "models" or key == "adapters" or key == "backends" or key == "choices" or key == "queues" or
            key == "keys" then
            slot[key] = list(value)
        elseif NUMBERS[key] then
            slot[key] = math.tointeger(tonumber(value))
        elseif key == "gate" or key == "reason" or key == "name" then
            slot[key] = percent.decoded(value)
        end
    end
    slot.has = set_of(slot.models)
    all[number] = slot
    if before == "closed" and slot.gate == "open" then
        slot.wakes = slot.wakes + 1
    end
    slots.note_models(slot)
    slots.note_passing(slot)
    slots.note_past_lua(slot)
    slots.changed(slot)
    applet:send("ok\n")
end

-- daybreak unset <slot>: the service has gone; who is held for it hears so.
local function unset(applet, _, _, number)
    number = slots.number(number)
    if number and all[number] then
        all[number].gate = "unset"
        slots.note_models(all[number])
        slots.note_past_lua(all[number])
        all[number] = nil
    end
    applet:send("ok\n")
end

local function times(name, found)
    return found and string.format(',"%s":{"sum_ms":%d,"counts":[%s]}', name, found.sum,
        table.concat(found.counts, ",")) or ""
end

local function counts(found)
    local rows = {}
    for name, count in pairs(found) do
        rows[#rows + 1] = quoted(name) .. ":" .. count
    end
    return table.concat(rows, ",")
end

local function row(number, slot, flying, now)
    local answers, response_ms = slots.answers(slot)
    return string.format(
        '{"slot":%d,"name":%s,"gate":%s,"epoch":%d,"arrivals":%d,"past_lua":%d,"held":%d,"in_flight":%d,"idle_ms":%d,' ..
        '"servers_up":%d,"wakes":%d,"connect_ms":%d,"ends":{%s},"answers":{%s},"response_ms":%d%s%s}',
        number, quoted(slot.name), quoted(slot.gate), slot.epoch, slot.arrivals, slot.went, slot.held, flying,
        now - slot.last, slots.servers_up(slot.backend), slot.wakes, slot.connect_ms, counts(slot.ends),
        counts(answers), response_ms,
        times("holds", slot.holds), times("added", slot.added))
end

-- daybreak show [changed <sequence>]: all slots, or those that changed since, of one moment. A slot with requests in
-- flight may change at any time without Lua's hearing of it, so it always belongs to those that changed.
local function show(applet, _, _, what, since)
    since = what == "changed" and math.tointeger(tonumber(since)) or -1
    local now = slots.now_ms()
    local rows = {}
    for number, slot in pairs(all) do
        local flying = slots.in_flight(slot, now)
        if slot.busy or slot.changed > since then
            rows[#rows + 1] = row(number, slot, flying, now)
        end
    end
    applet:send(string.format('{"boot":"%s","sequence":%d,"slots":[', slots.boot, slots.sequence) ..
        table.concat(rows, ",") .. "]}\n")
end

-- daybreak held [<slot>]: who waits, and on which connection. HAProxy does not hear of each client that leaves, so somebody
-- else looks, and says so with: daybreak departed <number>,<number>,...
local function held(applet, _, _, number)
    local wanted = all[slots.number(number)]
    local rows = {}
    for place_number, place in pairs(waiting) do
        if number == nil or number == "" or place.slot == wanted then
            rows[#rows + 1] = "[" .. place_number .. "," .. place.connection .. "]"
        end
    end
    applet:send('{"held":[' .. table.concat(rows, ",") .. "]}\n")
end

local function departed(applet, _, _, numbers)
    for number in numbers:gmatch("%d+") do
        local place = waiting[math.tointeger(tonumber(number))]
        if place then
            place.departed = true
        end
    end
    applet:send("ok\n")
end

-- daybreak ready: every service that there is has been told; what is unknown does not exist.
local function ready(applet)
    slots.ready = true
    applet:send("ok\n")
end

-- daybreak streams <backend>: requests in a model's backend, held ones included.
local function streams(applet, _, _, name)
    local backend = core.backends[name]
    applet:send((backend and backend:get_stats().scur or 0) .. "\n")
end

core.register_cli({ "daybreak", "streams" }, "daybreak streams <backend> : how many requests it has", streams)
core.register_cli({ "daybreak", "ready" }, "daybreak ready : all services have been told", ready)
core.register_cli({ "daybreak", "set" }, "daybreak set <slot> <key>=<value>... : set a service", set)
core.register_cli({ "daybreak", "unset" }, "daybreak unset <slot> : forget a service", unset)
core.register_cli({ "daybreak", "show" }, "daybreak show [changed <sequence>] : a snapshot of all services, as JSON", show)
core.register_cli({ "daybreak", "held" }, "daybreak held [<slot>] : clients that are held, as JSON", held)
core.register_cli({ "daybreak", "departed" }, "daybreak departed <number>,... : these held clients have left", departed)
