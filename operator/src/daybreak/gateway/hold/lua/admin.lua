-- Admin socket: commands that configure services in the gateway and report their state.

local keys = require("keys")
local percent = require("percent")
local budget = require("budget")
local quoted = require("answers").quoted
local slots = require("slots")

local all, waiting = slots.all, slots.waiting

local NUMBERS = { port = true, epoch = true, hold_ms = true, max_held = true, max_body_bytes = true,
    retry_after = true, replicas_listen = true, front = true, waits = true, guarded = true }
local LISTS = { models = true, adapters = true, origins = true, routes = true, probes = true }
local TEXTS = { check = true, paths = true, gate = true, reason = true, service = true, model = true, uid = true }

local function list(value)
    if value == "" then
        return slots.NONE
    end
    local items = {}
    for item in value:gmatch("[^,]+") do
        items[#items + 1] = percent.decoded(item)
    end
    return items
end

local function set_of(items)
    if #items == 0 then
        return slots.NONE
    end
    local found = {}
    for _, item in ipairs(items) do
        found[item] = true
    end
    return found
end

-- daybreak set <backend> key=value ...: values are percent-encoded, models and keys separated by commas.
local function set(applet, _, _, id, ...)
    id = slots.backend_name(id)
    if not id then
        applet:send("error: no such slot\n")
        return
    end
    local slot = all[id] or slots.fresh(id)
    local before = (slot.epoch or -1) >= 0 and slot.gate  -- nil until the first configuration was applied
    local words = {}
    for _, word in ipairs({ ... }) do
        local key, value = word:match("^([%w_]+)=(.*)$")
        words[key] = value
        if LISTS[key] then
            slot[key] = list(value)
        elseif NUMBERS[key] then
            slot[key] = math.tointeger(tonumber(value))
        elseif TEXTS[key] then
            slot[key] = percent.decoded(value)
        elseif key == "extra" then
            slot.extra = set_of(list(value))
        elseif key == "keys" then
            slot.keys = keys.parsed(value)
        elseif key == "choice" then
            slot.choice = slots.choice_of(value)
        elseif key == "queue" then
            slot.queue = slots.natural(value)
        end
    end
    slot.has = set_of(slot.models)
    if words.listed then
        local names = words.listed == words.models and slot.models or list(words.listed)
        slot.listed = { names = names, has = names == slot.models and slot.has or set_of(names) }
    end
    slot.gone = nil
    slots.add(slot)
    if before == "closed" and slot.gate == "open" then
        slot.wakes = slot.wakes + 1
    end
    slots.note_models(slot)
    keys.note(slot)
    slots.note_servers(slot)
    slots.changed(slot)
    applet:send("ok\n")
end

-- Removes a gate: no further request reaches it, and held requests receive the named response.
local function take_away(slot, name, values)
    slot.gone = { name = name, values = values }
    slot.gate = "closed"
    slots.note_models(slot)
    keys.note(slot)
    slots.note_servers(slot)
    slots.changed(slot)
end

-- daybreak remove <backend>: the model was removed, but not the service. Snapshots include the gate until it
-- is unset, when its last stream has ended.
local function remove(applet, _, _, id)
    local slot = all[id]
    if slot and not slot.gone then
        take_away(slot, "model_removed", { model = slot.model })
    end
    applet:send("ok\n")
end

-- daybreak unset <backend>: the service was deleted; its held requests are answered.
local function unset(applet, _, _, id)
    local slot = all[id]
    if slot then
        take_away(slot, "service_deleted")
        slots.forget(slot)
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

local function row(id, slot, flying, now)
    local answers, response_ms = slots.answers(slot)
    return string.format(
        '{"slot":%s,"service":%s,"model":%s,"gate":%s,"epoch":%d,"arrivals":%d,"past_lua":%d,"held":%d,' ..
        '"held_ms":%d,"in_flight":%d,"idle_ms":%d,"servers_up":%d,"wakes":%d,"connect_ms":%d,"ends":{%s},' ..
        '"answers":{%s},"response_ms":%d%s%s%s}',
        quoted(id), quoted(slot.service), quoted(slot.model), quoted(slot.gate), slot.epoch, slot.arrivals, slot.went,
        slot.held, slots.held_ms(slot, now), flying, now - slot.last, slots.servers_up(slot), slot.wakes, slot.connect_ms,
        counts(slot.ends), counts(answers), response_ms, times("holds", slot.holds), times("added", slot.added), keys.told(slot))
end

-- daybreak show [changed <sequence> [<backend>...]]: an atomic snapshot of all slots, or of those that
-- changed since, and of the named ones. A slot with requests in flight may change at any time without Lua's
-- notice, so it always counts as changed. A slot whose requests are all held does not: a hundred slots that
-- wait for accelerators would be in every report.
local function show(applet, _, _, what, since, ...)
    since = what == "changed" and math.tointeger(tonumber(since)) or -1
    local flying, now = slots.look()
    local told, rows = slots.changed_since(since), {}
    for slot in pairs(flying) do
        if slot.busy and not slot.only_held then
            told[slot] = true
        end
    end
    for _, id in ipairs({ ... }) do
        if all[id] then
            told[all[id]] = true
        end
    end
    for slot in pairs(told) do
        rows[#rows + 1] = row(slot.id, slot, flying[slot] or 0, now)
    end
    applet:send(string.format('{"boot":"%s","sequence":%d,"slots":[', slots.boot, slots.sequence) ..
        table.concat(rows, ",") .. "]}\n")
end

-- daybreak known: the configured gates, for an agent that replaces another one.
local function known(applet)
    local rows = {}
    for id, slot in pairs(all) do
        rows[#rows + 1] = string.format(
            '{"backend":%s,"port":%d,"uid":%s,"service":%s,"model":%s,"front":%s,"gone":%s}', quoted(id), slot.port,
            quoted(slot.uid), quoted(slot.service), quoted(slot.model), slot.front == 1, slot.gone ~= nil)
    end
    applet:send('{"gates":[' .. table.concat(rows, ",") .. "]}\n")
end

-- daybreak held [<backend>]: the held requests and their connections. HAProxy does not notice every client
-- that leaves, so the agent checks, and reports with: daybreak departed <number>,<number>,...
local function held(applet, _, _, id)
    local wanted = id and all[id]
    local rows = {}
    for place_number, place in pairs(waiting) do
        if id == nil or id == "" or place.slot == wanted then
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

-- daybreak ready: all services are configured; unknown ones do not exist.
local function ready(applet)
    slots.ready = true
    applet:send("ok\n")
end

-- daybreak streams <backend>: number of its requests, held ones included.
local function streams(applet, _, _, name)
    local backend = core.backends[name]
    applet:send((backend and backend:get_stats().scur or 0) .. "\n")
end

-- daybreak kept: memory of held requests.
local function kept(applet)
    applet:send(string.format('{"held_bytes":%d}\n', budget.bytes))
end

-- daybreak memory: memory of Lua, without garbage.
local function memory(applet)
    collectgarbage("collect")
    applet:send(string.format('{"lua_bytes":%d}\n', collectgarbage("count") * 1024 // 1))
end

core.register_cli({ "daybreak", "memory" }, "daybreak memory : bytes that Lua keeps, as JSON", memory)
core.register_cli({ "daybreak", "kept" }, "daybreak kept : bytes of held requests, as JSON", kept)
core.register_cli({ "daybreak", "streams" }, "daybreak streams <backend> : how many requests it has", streams)
core.register_cli({ "daybreak", "ready" }, "daybreak ready : all services have been told", ready)
core.register_cli({ "daybreak", "set" }, "daybreak set <backend> <key>=<value>... : set a gate", set)
core.register_cli({ "daybreak", "remove" }, "daybreak remove <backend> : its model has gone", remove)
core.register_cli({ "daybreak", "unset" }, "daybreak unset <backend> : forget a gate", unset)
core.register_cli({ "daybreak", "show" }, "daybreak show [changed <sequence> [<backend>...]] : a snapshot of all gates, as JSON", show)
core.register_cli({ "daybreak", "known" }, "daybreak known : the gates that have been told of, as JSON", known)
core.register_cli({ "daybreak", "held" }, "daybreak held [<backend>] : clients that are held, as JSON", held)
core.register_cli({ "daybreak", "departed" }, "daybreak departed <number>,... : these held clients have left", departed)
