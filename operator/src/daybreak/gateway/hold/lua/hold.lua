-- Holds requests while the gate of their model is closed.
--
-- A held request does not wait inside Lua: hold() returns act.YIELD with the time of its next check, and
-- HAProxy calls it again. When HAProxy notices that the client has left, it runs the next rule, gone().
-- core.queue() would wake a request without polling, but in 2.8 it keeps a pointer to the task of a client
-- that has left.

local again = require("again")
local answers = require("answers")
local body = require("body")
local budget = require("budget")
local clock = require("clock")
local keys = require("keys")
local model = require("model")
local pause = require("pause")
local slots = require("slots")

local RATE = tonumber(os.getenv("DAYBREAK_RELEASE_RATE"))    -- released per second and slot
local BURST = tonumber(os.getenv("DAYBREAK_RELEASE_BURST"))  -- released at once

local NEXT_LOOK_MIN = 10   -- ms; maximum delay of the first requests after the gate opens
local NEXT_LOOK_MAX = 500  -- ms; maximum delay until a held request notices a failure

local HELD = "txn.daybreak_held"
local UNTOLD = "txn.daybreak_untold"
local PASSED = "txn.daybreak_passed"
local FOR_REPLICAS = "txn.daybreak_for_replicas"
local FULL = "txn.daybreak_full"
local TOLD = "txn.daybreak_told"
local SOURCE = "txn.daybreak_source"
local TURN = "txn.daybreak_turn"
local RAW = "txn.daybreak_raw"  -- of a returned request: its body is unchecked
local DEADLINE = "txn.daybreak_deadline"
local SERVER = "txn.daybreak_server"
local NEXT = "txn.daybreak_next"  -- <ms>:<...>: from the router, if the route has another backend
local FALLS_BACK = "txn.daybreak_falls_back"
local PROBE = "txn.daybreak_probe"  -- it does not count as activity

local MOST_TURNS = 8  -- maximum returns of a request for which no server could be reached

local now_ms, waiting, can_pass = clock.now_ms, slots.waiting, slots.can_pass
local last_number = 0

local function leave(txn, slot, number, reason)
    local back = false
    if number then
        local now, since = now_ms(), waiting[number].since
        back = waiting[number].back
        slot.held = slot.held - 1
        slot.came[waiting[number].order] = nil
        keys.count_held(slot, waiting[number].whose, -1)
        slot.left = slot.left + 1
        slot.last = now
        slots.observe(slot, "holds", now - since)
        if reason == "passed" and not back then
            slots.observe(slot, "added", now - math.max(since, slot.passes_since or now))
        end
        budget.give_back(waiting[number])
        waiting[number] = nil
        txn:unset_var(HELD)
    end
    if back and reason == "passed" then
        slots.changed(slot)  -- it was counted when it passed for the first time
    else
        slots.count(slot, reason)
    end
end

-- Returns whether one more held request may be released now.
local function take_token(slot, now)
    slot.tokens = math.min(BURST, slot.tokens + (now - slot.filled) * RATE / 1000)
    slot.filled = now
    if slot.tokens < 1 then
        return false
    end
    slot.tokens = slot.tokens - 1
    return true
end

-- Returns the ms until the next check of a held request. Requests at the front check often; later ones wait
-- for half the time until their turn at the release rate. Check at most every 0.5 % of the time waited, to
-- bound CPU with many old requests.
local function next_look(slot, place, now)
    local rank = math.min(place.order - slot.left, slot.held)
    local wanted = math.max(rank * 500 / RATE, (now - place.since) / 200)
    local look = math.max(NEXT_LOOK_MIN, math.min(NEXT_LOOK_MAX, wanted))
    return math.max(1, math.floor(math.min(look, math.min(place.deadline, place.falls_back_at) - now)))
end

-- Sends a request back to the router for the next backend of its route, if there is one; nothing of it was
-- sent. number: of its place in the hold, if it has one. Returns whether the request was sent back.
local function falls_back(txn, slot, number)
    if not txn:get_var(NEXT) then
        return false
    end
    leave(txn, slot, number, "fell_back")
    again.went_on(slot)
    txn:set_var(SERVER, again.NEXT)
    txn:set_var(FALLS_BACK, true)
    txn:set_var(PASSED, true)
    return true
end

-- Answers 404 if the request names a model that the service does not have: the model's own 404 would cost a
-- wake, and Serve's has another shape. The name comes from the received part of the body, or from the router.
-- A request without a name is left to the model.
local function check_model(txn, slot, path, text)
    local name = model.named(path, text, txn) or txn:get_var(TOLD)
    local listed = (slots.fronts[slot.port] or slot).listed
    if name and #listed.names > 0 and not slot.has[name] and not listed.has[name] then
        slots.count(slot, "unknown_model")
        answers.unknown(txn, name, keys.visible(txn, listed.names), function()
            answers.respond(txn, "model_not_found_none", { model = name })
        end)
    end
    keys.check_model(txn, slot, not model.FORMS[path] and name or nil)
end

local function no_memory(txn, slot)
    answers.respond(txn, "hold_full_memory", { retry_after = slot.retry_after })
end

-- Returns the received bytes of the body that fit the buffer.
local function come(txn)
    return tonumber(txn.f:req_body_len()) or 0
end

-- Charges the newly received part of a held request's body. Returns whether the budget allows it.
local function grow(txn, place)
    if not place.grows then
        return true
    end
    local bytes, grows = budget.needed(place.length, come(txn), place.head)
    if bytes > place.bytes and not budget.take(place.port, place.source, bytes - place.bytes) then
        return false
    end
    place.bytes, place.grows = math.max(bytes, place.bytes), grows
    return true
end

-- Adds a request to the hold and returns its number, or nil if it goes to another backend. deadline: of a
-- request that was held before.
local function join(txn, slot, now, for_replicas, length, whose, deadline)
    local source = txn:get_var(SOURCE)
    length = length or txn.sf:req_hdr("transfer-encoding") == "" and 0 or nil
    local head = #txn.sf:req_hdrs()
    local bytes, grows = budget.needed(length, come(txn), head)
    local room = budget.take(slot.port, source, bytes)
    if not room and falls_back(txn, slot) then
        return nil
    end
    if not room then
        slots.count(slot, "hold_full")
        no_memory(txn, slot)
    end
    keys.count_held(slot, whose, 1)
    last_number = last_number + 1
    slot.held = slot.held + 1
    slot.joined = slot.joined + 1
    slot.came[slot.joined] = now
    slots.changed(slot)
    local patience = math.tointeger(tonumber((txn:get_var(NEXT) or ""):match("^(%d+):")))
    waiting[last_number] = {
        falls_back_at = patience and now + patience or math.huge,
        slot = slot, whose = whose, for_replicas = for_replicas, order = slot.joined, since = now,
        deadline = deadline or now + slot.hold_ms, waits = false, back = txn:get_var(TURN) ~= nil,
        departed = false, source = source, port = slot.port, bytes = bytes, grows = grows, length = length, head = head,
        connection = string.format('"%s",%d,"%s",%d', txn.f:src(), txn.f:src_port(), txn.f:dst(), txn.f:dst_port()),
    }
    txn:set_var(HELD, last_number)
    return last_number
end

-- Handles a request that does not count as activity: it passes if the model is awake, and otherwise receives
-- an immediate response.
local function probe(txn, slot, passes)
    slots.count(slot, "health_check")
    if passes then
        slots.use(slot)
    elseif slot.gate == "closed" then
        answers.asleep(txn, slot.model)
    elseif slot.gate == "failed" then
        answers.respond(txn, "model_failed", { reason = slot.reason, retry_after = slot.retry_after })
    else
        answers.respond(txn, "health_check_unserved", { retry_after = slot.retry_after })
    end
end

-- Handles a new request. Returns the number of its place in the hold, or nil if it may pass or goes to
-- another backend.
local function arrive(txn, slot, now, for_replicas)
    local length = tonumber(txn.sf:req_hdr("content-length"))
    if length and length > slot.max_body_bytes then
        body.too_large(txn, slot)
    end
    local path = txn.sf:path()
    local text = body.look(txn, slot, path, length)
    if slot.paths == "" then
        check_model(txn, slot, path, text)
    else
        keys.check_model(txn, slot, slot.model)
    end
    if for_replicas and slot.replicas_listen == 0 then
        slots.count(slot, "refused")
        answers.respond(txn, "path_needs_replica")
    end
    local passes = can_pass(slot, for_replicas)
    if txn:get_var(PROBE) then
        probe(txn, slot, passes and not txn:get_var(FULL))
        return nil
    end
    slot.arrivals = slot.arrivals + 1
    slot.last = now
    slots.use(slot)
    local full = passes and txn:get_var(FULL)
    local crowded = not passes and slot.gate ~= "failed" and slot.held >= slot.max_held
    if (full or crowded) and falls_back(txn, slot) then
        return nil
    end
    if full then
        slots.count(slot, "queue_full")
        local queued = math.tointeger(txn.f:queue())
        answers.respond(txn, "queue_full_replicas", { waiting = queued, retry_after = slot.retry_after })
    end
    if passes then
        slots.count(slot, "passed")
        if not slot.past_lua then
            slots.note_past_lua(slot)
        end
        return nil
    end
    if crowded then
        slots.count(slot, "hold_full")
        answers.respond(txn, "hold_full_waking", { held = slot.held, retry_after = slot.retry_after })
    end
    local whose = keys.check_held(txn, slot)
    return join(txn, slot, now, for_replicas, length, whose)
end

-- Handles a request that passed and returned because no server could be reached; nothing of it was sent.
local function come_back(txn, slot, now)
    slots.use(slot)
    again.used(slot)
    if txn:get_var(TURN) > MOST_TURNS then
        slots.count(slot, "not_reached")
        answers.respond(txn, "replicas_unreachable", { retry_after = slot.retry_after })
    end
    if txn:get_var(PROBE) then
        probe(txn, slot, false)
    end
    local length = tonumber(txn.sf:req_hdr("content-length"))
    local for_replicas = txn:get_var(FOR_REPLICAS)
    if txn:get_var(RAW) then
        -- It was sent to replicas that check bodies. The next servers may not, and Serve's proxy does not
        -- know adapters.
        body.look(txn, slot, txn.sf:path(), length)
        for_replicas = for_replicas or slot.replicas_listen == 1
    end
    return join(txn, slot, now, for_replicas, length, keys.whose(txn), txn:get_var(DEADLINE))
end

local function hold(txn)
    -- HAProxy makes Lua count instructions to interrupt long runs. That never happens here, so it only costs
    -- time.
    debug.sethook()
    local now = now_ms()
    local number = txn:get_var(HELD)
    local place = number and waiting[number]
    local slot
    if place then
        slot = place.slot
    else
        local id = txn.sf:be_name()
        if not txn:get_var(UNTOLD) then
            local seen = txn:get_var(PROBE) and slots.probes_seen or slots.seen
            seen[id] = (seen[id] or 0) + 1
        end
        slot = slots.all[id]
        if not slot then
            return slots.unknown(txn, slots.own_port(id) ~= nil, UNTOLD)
        end
        if txn:get_var(TURN) then
            number = come_back(txn, slot, now)
        else
            number = arrive(txn, slot, now, txn:get_var(FOR_REPLICAS))
        end
        if not number then
            txn:set_var(PASSED, true)
            return act.CONTINUE
        end
        place = waiting[number]
    end
    if place.departed then
        leave(txn, slot, number, "gone")
        txn:done()
    end
    local passes = can_pass(slot, place.for_replicas)
    local over = slot.gone or slot.gate == "failed" or not passes and now >= math.min(place.deadline, place.falls_back_at)
    if over and falls_back(txn, slot, number) then
        return act.CONTINUE
    end
    if slot.gone then
        leave(txn, slot, number, "unset")
        answers.respond(txn, slot.gone.name, slot.gone.values)
    end
    if slot.gate == "failed" then
        leave(txn, slot, number, "failed")
        answers.respond(txn, "model_failed", { reason = slot.reason, retry_after = slot.retry_after })
    end
    if passes and take_token(slot, now) then
        leave(txn, slot, number, "passed")
        txn:set_var(PASSED, true)
        txn:set_var(DEADLINE, place.deadline)
        return act.CONTINUE
    end
    if now >= place.deadline then
        leave(txn, slot, number, "timed_out")
        local seconds = slot.hold_ms // 1000
        if slot.gate == "open" then
            answers.respond(txn, "wake_timeout_unreachable", { seconds = seconds, retry_after = slot.retry_after })
        else
            answers.respond(txn, "wake_timeout", { seconds = seconds, retry_after = slot.retry_after })
        end
    end
    if not grow(txn, place) then
        if falls_back(txn, slot, number) then
            return act.CONTINUE
        end
        leave(txn, slot, number, "hold_full")
        no_memory(txn, slot)
    end
    local waits = place.waits
    place.waits = true
    return pause(next_look(slot, place, now), waits)
end

-- Handles a hold that HAProxy ended because the client has left.
local function gone(txn)
    local number = txn:get_var(HELD)
    leave(txn, waiting[number].slot, number, "gone")
    txn:done()
end

core.register_action("hold", { "http-req" }, hold)
core.register_action("gone", { "http-req" }, gone)
