-- What the gateway knows of each service (slot), and the hold of requests while its gate is closed.
--
-- HAProxy has one thread, so nothing in here runs at the same time as anything else. A held request does not
-- wait inside Lua: hold() returns act.YIELD with the time of its next look and is called anew. Where HAProxy
-- notices that the client has left, it goes on to the next rule, gone(). core.queue() would wake a request without
-- polling, but in 2.8 it keeps a pointer to the task of a client that has left.

local SLOTS = tonumber(os.getenv("DAYBREAK_SLOTS"))
local FIRST_PORT = tonumber(os.getenv("DAYBREAK_FIRST_PORT"))
local RATE = tonumber(os.getenv("DAYBREAK_RELEASE_RATE"))    -- released per second and slot
local BURST = tonumber(os.getenv("DAYBREAK_RELEASE_BURST"))  -- released at once

local NEXT_LOOK_MIN = 20   -- ms; the longest that the first ones wait for an open gate
local NEXT_LOOK_MAX = 500  -- ms; the longest that anybody waits to hear of a failure
local SWEEP = 500          -- ms between two looks at who is still in flight

local HELD = "txn.daybreak_held"

local slots = {}           -- slot number -> what is known of its service
local waiting = {}         -- number of a held request -> its place
local last_number = 0
local boot = string.format("%d.%06d", core.now().sec, core.now().usec)
-- Number of the latest change of any slot. It begins with the time, so that a number of an earlier HAProxy is
-- older than every change of this one: who asks with it hears everything.
local sequence = core.now().sec * 1000000 + core.now().usec

local function now_ms()
    local now = core.now()
    return now.sec * 1000 + now.usec // 1000
end

local function changed(slot)
    sequence = sequence + 1
    slot.changed = sequence
end

-- JSON ------------------------------------------------------------------------------------------------------

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function quoted(text)
    return '"' .. text:gsub('[%c"\\]', function(char)
        return ESCAPES[char] or string.format("\\u%04x", char:byte())
    end) .. '"'
end

local function error_body(message, kind, code)
    return '{"error": {"message": ' .. quoted(message) .. ', "type": ' .. quoted(kind) ..
        ', "param": null, "code": ' .. quoted(code) .. "}}"
end

-- Answers ---------------------------------------------------------------------------------------------------

local function answer(txn, status, body, retry_after)
    local reply = txn:reply({ status = status })
    reply:add_header("content-type", "application/json")
    reply:add_header("cache-control", "no-store")
    if retry_after then
        reply:add_header("retry-after", tostring(retry_after))
    end
    reply:set_body(body)
    txn:done(reply)
end

local function count(slot, reason)
    slot.ends[reason] = (slot.ends[reason] or 0) + 1
    changed(slot)
end

local function too_large(txn, slot)
    count(slot, "too_large")
    answer(txn, 413, error_body("The request is larger than the " .. slot.max_body_bytes ..
        " bytes that this service takes.", "invalid_request_error", "request_too_large"))
end

local function model(name)
    return '{"id": ' .. quoted(name) .. ', "object": "model", "created": 0, "owned_by": "daybreak"}'
end

local function answer_models(txn, slot, path)
    local wanted = path:match("^/v1/models/(.+)$")
    local list = {}
    for _, name in ipairs(slot.models) do
        if wanted == name then
            answer(txn, 200, model(name))
        end
        list[#list + 1] = model(name)
    end
    if wanted then
        answer(txn, 404, error_body("The model " .. wanted .. " does not exist. There is: " ..
            table.concat(slot.models, ", "), "invalid_request_error", "model_not_found"))
    end
    answer(txn, 200, '{"object": "list", "data": [' .. table.concat(list, ", ") .. "]}")
end

-- The hold --------------------------------------------------------------------------------------------------

local function leave(txn, slot, number, reason)
    if number then
        slot.held = slot.held - 1
        slot.left = slot.left + 1
        slot.last = now_ms()
        waiting[number] = nil
        txn:unset_var(HELD)
    end
    count(slot, reason)
end

-- Whether one more held request may be released now.
local function take_token(slot, now)
    slot.tokens = math.min(BURST, slot.tokens + (now - slot.filled) * RATE / 1000)
    slot.filled = now
    if slot.tokens < 1 then
        return false
    end
    slot.tokens = slot.tokens - 1
    return true
end

-- ms until a held request looks again. Those in front look often; those behind, whose turn comes later, seldom:
-- half the time until their turn at the pace of release.
local function next_look(slot, place, now)
    local rank = math.min(place.order - slot.left, slot.held)
    local look = math.max(NEXT_LOOK_MIN, math.min(NEXT_LOOK_MAX, rank * 500 / RATE))
    return math.max(1, math.floor(math.min(look, place.deadline - now)))
end

local function can_pass(slot)
    return slot.gate == "open" and slot.backend:get_srv_act() > 0
end

-- A request that comes for the first time. Returns the number of its place in the hold, or nil if it may pass.
local function arrive(txn, slot, now)
    local length = tonumber(txn.sf:req_hdr("content-length"))
    if length and length > slot.max_body_bytes then
        too_large(txn, slot)
    end
    local path = txn.sf:path()
    local passes = can_pass(slot)
    if path:find("^/v1/models") then
        -- To list models is not to use them: it wakes nothing and keeps nothing awake.
        if not passes then
            answer_models(txn, slot, path)
        end
        slot.busy = true
        return nil
    end
    slot.arrivals = slot.arrivals + 1
    slot.last = now
    slot.busy = true
    if passes then
        count(slot, "passed")
        return nil
    end
    if slot.gate ~= "failed" and slot.held >= slot.max_held then
        count(slot, "queue_full")
        answer(txn, 429, error_body("The model is waking up and " .. slot.held ..
            " requests wait already: try again later.", "rate_limit_error", "queue_full"), slot.retry_after)
    end
    last_number = last_number + 1
    slot.held = slot.held + 1
    slot.joined = slot.joined + 1
    changed(slot)
    waiting[last_number] = {
        slot = slot, order = slot.joined, deadline = now + slot.hold_ms, departed = false,
        connection = string.format('"%s",%d,%d', txn.f:src(), txn.f:src_port(), txn.f:dst_port()),
    }
    txn:set_var(HELD, last_number)
    return last_number
end

local function hold(txn)
    local now = now_ms()
    local number = txn:get_var(HELD)
    local place = number and waiting[number]
    local slot
    if place then
        slot = place.slot
    else
        slot = slots[txn.f:dst_port() - FIRST_PORT]
        if not slot then
            answer(txn, 404, error_body("There is no such service.", "invalid_request_error", "not_found"))
        end
        number = arrive(txn, slot, now)
        if not number then
            return act.CONTINUE
        end
        place = waiting[number]
    end
    if place.departed then
        leave(txn, slot, number, "gone")
        txn:done()
    end
    if slot.gate == "unset" then
        leave(txn, slot, number, "unset")
        answer(txn, 404, error_body("The service has been deleted.", "invalid_request_error", "not_found"))
    end
    if slot.gate == "failed" then
        leave(txn, slot, number, "failed")
        answer(txn, 503, error_body(slot.reason, "server_error", "model_failed"), slot.retry_after)
    end
    if can_pass(slot) and take_token(slot, now) then
        leave(txn, slot, number, "passed")
        return act.CONTINUE
    end
    if now >= place.deadline then
        leave(txn, slot, number, "timed_out")
        answer(txn, 503, error_body("The model did not wake up within " .. slot.hold_ms // 1000 ..
            " seconds: try again.", "server_error", "wake_timeout"), slot.retry_after)
    end
    act.wake_time(next_look(slot, place, now))
    return act.YIELD
end

-- HAProxy has stopped a hold: the client has gone.
local function gone(txn)
    local number = txn:get_var(HELD)
    leave(txn, waiting[number].slot, number, "gone")
    txn:done()
end

core.register_action("hold", { "http-req" }, hold)
core.register_action("gone", { "http-req" }, gone)

-- The cap on chunked bodies ---------------------------------------------------------------------------------

local Cap = { id = "Cap on chunked bodies", flags = filter.FLT_CFG_FL_HTX }
Cap.__index = Cap

function Cap:new()
    return setmetatable({ seen = 0 }, Cap)
end

function Cap:http_headers(txn, message)
    if message.channel:is_resp() or txn.sf:req_hdr("transfer-encoding") == "" then
        return
    end
    self.slot = slots[txn.f:dst_port() - FIRST_PORT]
    if self.slot then
        filter.register_data_filter(self, message.channel)
    end
end

function Cap:http_payload(txn, message)
    if self.over then
        return  -- answered already: a second answer would wipe out the first
    end
    self.seen = self.seen + #(message:body() or "")
    if self.seen > self.slot.max_body_bytes then
        self.over = true
        too_large(txn, self.slot)
    end
end

core.register_filter("cap", Cap, function(cap) return cap end)

-- Who is in flight ------------------------------------------------------------------------------------------

-- Requests of a slot that have passed its gate and have not ended. HAProxy counts the streams of a backend, held
-- ones included. Asking costs something, so nobody asks for a slot that was empty and had no arrival since.
local function in_flight(slot, now)
    if not slot.busy then
        return 0
    end
    local streams = slot.backend:get_stats().scur
    if streams > 0 or slot.swept ~= slot.arrivals then
        -- What began and ended between two looks ended now, as far as anybody knows: never idle for too long.
        slot.last = now
    else
        slot.busy = false
        changed(slot)
    end
    slot.swept = slot.arrivals
    return math.max(0, streams - slot.held)
end

core.register_task(function()
    while true do
        local now = now_ms()
        for _, slot in pairs(slots) do
            in_flight(slot, now)
        end
        core.msleep(SWEEP)
    end
end)

-- The admin socket ------------------------------------------------------------------------------------------

local function unescaped(text)
    return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

local function fresh(number)
    return {
        number = number, backend = core.backends["s" .. number], models = {}, reason = "", name = "",
        arrivals = 0, swept = 0, held = 0, joined = 0, left = 0, ends = {}, busy = false,
        last = now_ms(), tokens = 0, filled = now_ms(),
    }
end

local NUMBERS = { epoch = true, hold_ms = true, max_held = true, max_body_bytes = true, retry_after = true }

-- daybreak set <slot> key=value ...: values are percent-encoded, models are separated by commas.
local function set(applet, _, _, number, ...)
    number = math.tointeger(tonumber(number))
    if not number or number < 0 or number >= SLOTS then
        applet:send("error: no such slot\n")
        return
    end
    local slot = slots[number] or fresh(number)
    for _, word in ipairs({ ... }) do
        local key, value = word:match("^([%w_]+)=(.*)$")
        if key == "models" then
            slot.models = {}
            for name in value:gmatch("[^,]+") do
                slot.models[#slot.models + 1] = unescaped(name)
            end
        elseif NUMBERS[key] then
            slot[key] = math.tointeger(tonumber(value))
        elseif key == "gate" or key == "reason" or key == "name" then
            slot[key] = unescaped(value)
        end
    end
    slots[number] = slot
    changed(slot)
    applet:send("ok\n")
end

-- daybreak unset <slot>: the service has gone; who is held for it hears so.
local function unset(applet, _, _, number)
    number = math.tointeger(tonumber(number))
    if number and slots[number] then
        slots[number].gate = "unset"
        slots[number] = nil
    end
    applet:send("ok\n")
end

local function row(number, slot, now)
    local flying = in_flight(slot, now)
    local ends = {}
    for reason, times in pairs(slot.ends) do
        ends[#ends + 1] = quoted(reason) .. ":" .. times
    end
    return string.format(
        '{"slot":%d,"name":%s,"gate":%s,"epoch":%d,"arrivals":%d,"held":%d,"in_flight":%d,"idle_ms":%d,' ..
        '"servers_up":%d,"ends":{%s}}',
        number, quoted(slot.name), quoted(slot.gate), slot.epoch, slot.arrivals, slot.held, flying,
        now - slot.last, slot.backend:get_srv_act(), table.concat(ends, ","))
end

-- daybreak show [changed <sequence>]: all slots, or those that changed since, of one moment. A slot with requests in
-- flight may change at any time without Lua's hearing of it, so it always belongs to those that changed.
local function show(applet, _, _, what, since)
    since = what == "changed" and math.tointeger(tonumber(since)) or -1
    local now = now_ms()
    local rows = {}
    for number, slot in pairs(slots) do
        if slot.busy or slot.changed > since then
            rows[#rows + 1] = row(number, slot, now)
        end
    end
    applet:send('{"boot":"' .. boot .. '","sequence":' .. sequence .. ',"slots":[' .. table.concat(rows, ",") .. "]}\n")
end

-- daybreak held: who waits, and on which connection. HAProxy does not hear of each client that leaves, so somebody
-- else looks, and says so with: daybreak departed <number>,<number>,...
local function held(applet)
    local rows = {}
    for number, place in pairs(waiting) do
        rows[#rows + 1] = "[" .. number .. "," .. place.connection .. "]"
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

-- Servers that come or go ------------------------------------------------------------------------------------

core.event_sub({ "SERVER_UP", "SERVER_DOWN" }, function(_, data)
    local slot = slots[math.tointeger(tonumber(data.proxy_name:match("^s(%d+)$")))]
    if slot then
        changed(slot)
    end
end)

core.register_cli({ "daybreak", "set" }, "daybreak set <slot> <key>=<value>... : set a service", set)
core.register_cli({ "daybreak", "unset" }, "daybreak unset <slot> : forget a service", unset)
core.register_cli({ "daybreak", "show" }, "daybreak show [changed <sequence>] : a snapshot of all services, as JSON", show)
core.register_cli({ "daybreak", "held" }, "daybreak held : clients that are held, as JSON", held)
core.register_cli({ "daybreak", "departed" }, "daybreak departed <number>,... : these held clients have left", departed)
