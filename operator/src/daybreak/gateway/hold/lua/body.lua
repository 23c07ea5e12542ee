-- Checks bodies while they pass, piece by piece: their size if it is not known in advance, and the fields
-- that guard.lua rejects. A body that is rejected in the middle never reaches the model completely.

local answers = require("answers")
local clock = require("clock")
local guard = require("guard")
local keys = require("keys")
local model = require("model")
local slots = require("slots")

local LIMITS = {
    choices = tonumber(os.getenv("DAYBREAK_MAX_CHOICES")),
    items = tonumber(os.getenv("DAYBREAK_MAX_ITEMS")),
    salt = tonumber(os.getenv("DAYBREAK_MAX_SALT")),
}
local GRACE = tonumber(os.getenv("DAYBREAK_BODY_GRACE")) * 1000  -- ms
local PACE = tonumber(os.getenv("DAYBREAK_BODY_PACE")) / 1000    -- bytes per ms
local ROOM = 8192  -- bytes of a body that are ready to forward; below this, the client is the slow part

local body = {}

function body.too_large(txn, slot)
    slots.count(slot, "too_large")
    answers.respond(txn, "body_too_large", { limit = slot.max_body_bytes })
end

local function too_slow(txn, slot)
    slots.count(slot, "too_slow")
    answers.respond(txn, "request_timeout")
end

local function refuse_field(txn, slot, scanner)
    slots.count(slot, "refused")
    answers.respond(txn, scanner.refusal, scanner.values)
end

-- HAProxy creates a filter for each request, and calls back those that registered for the body's pieces. The
-- usual callback for the head would run for every request and every response, and would cost more than the
-- rest of HAProxy's work. Therefore the hold registers for the pieces instead. It finds the request's filter
-- by the coroutine in which all Lua of a request runs.
local Body = { id = "Bodies", flags = filter.FLT_CFG_FL_HTX }
Body.__index = Body

local filters = setmetatable({}, { __mode = "k" })

function Body:new()
    local new = setmetatable({ seen = 0, waited = 0 }, Body)
    filters[coroutine.running()] = new
    return new
end

-- Returns whether a client exceeds its time. A slow body triggers this with each piece, and HAProxy ends a
-- stalled one. Time counts against the client only if there was room for more data.
function Body:slow(message)
    local now = clock.own_ms()  -- time without a processor does not count against the client
    if self.room then
        self.waited = self.waited + now - self.at
    end
    self.at = now
    self.room = message:output() + message:input() < ROOM
    return self.waited > GRACE + self.seen / PACE
end

function Body:http_payload(txn, message)
    debug.sethook()  -- as in hold.lua
    if self.over then
        return  -- answered already: a second response would erase the first
    end
    if self:slow(message) then
        self.over = true
        too_slow(txn, self.slot)
    end
    local text = message:body() or ""
    local known = self.looked_at - self.seen  -- bytes of it that were checked when the request arrived
    self.seen = self.seen + #text
    if self.counts and self.seen > self.slot.max_body_bytes then
        self.over = true
        body.too_large(txn, self.slot)
    end
    if self.scanner and known < #text and self.scanner:feed(known > 0 and text:sub(known + 1) or text) then
        self.over = true
        refuse_field(txn, self.slot, self.scanner)
    end
end

-- Checks a request before it is held or counted: rejects it if the received part of the body requires it, and
-- checks the rest while it passes. length: as the client announced it. Returns the received part.
function body.look(txn, slot, path, length)
    local text = txn.sf:req_body()
    local whole = length == #text
    -- Bodies that the engine would parse as JSON. The client's content type is ignored, because not every
    -- JSON parser checks it. Audio is sent as a form.
    local json = slot.paths == "" and not model.FORMS[path] and txn.sf:method() == "POST"
    local scanner = json and guard.new(path, LIMITS, slot.extra, (keys.of(txn) or {}).models)
    if scanner and scanner:feed(text) then
        refuse_field(txn, slot, scanner)
    end
    local counts = txn.sf:req_hdr("transfer-encoding") ~= ""
    if not whole then
        local watch = filters[coroutine.running()]
        watch.slot, watch.counts, watch.scanner, watch.looked_at = slot, counts, scanner, #text
        filter.register_data_filter(watch, txn.req)
    end
    return text
end

core.register_filter("body", Body, function(found) return found end)

return body
