-- Looks at bodies while they pass, piece by piece: their size, where nobody told it beforehand, and the fields that
-- guard.lua refuses. A body that is refused in the middle never reaches the model whole.

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
local ROOM = 8192  -- bytes of a body that wait to be passed on: with fewer, it is its client that is waited for

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

-- HAProxy makes a filter for each request, and calls back those that have asked for the body's pieces. A callback
-- for the head, as is usual, would be called for every request and every answer, and costs more than all the rest of
-- HAProxy's work; so the hold asks for the pieces instead. It finds the request's filter by the coroutine, which all
-- Lua of a request runs in.
local Body = { id = "Bodies", flags = filter.FLT_CFG_FL_HTX }
Body.__index = Body

local filters = setmetatable({}, { __mode = "k" })

function Body:new()
    local new = setmetatable({ seen = 0, waited = 0 }, Body)
    filters[coroutine.running()] = new
    return new
end

-- Whether a client takes longer than it may. A body that drips is called for with each drop, and one that stops is
-- HAProxy's to end. Time is the client's only where there was room for more.
function Body:slow(message)
    local now = clock.own_ms()  -- a time without a processor is not the client's
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
        return  -- answered already: a second answer would wipe out the first
    end
    if self:slow(message) then
        self.over = true
        too_slow(txn, self.slot)
    end
    local text = message:body() or ""
    local known = self.looked_at - self.seen  -- bytes of it that were looked at when the request arrived
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

-- Looks at a request before it is held or counted: refuses it if what is here of its body says so, and has the rest
-- looked at while it passes. length: as the client has told it. Returns what is here.
function body.look(txn, slot, path, length)
    local text = txn.sf:req_body()
    local whole = length == #text
    -- What the engine would read as JSON. The type that the client tells is not asked: not everybody who reads JSON
    -- minds it. Audio comes as a form.
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
