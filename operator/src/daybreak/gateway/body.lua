-- Looks at bodies while they pass, piece by piece: their size, where nobody told it beforehand, and the fields that
-- guard.lua refuses. A body that is refused in the middle never reaches the model whole.

local answers = require("answers")
local guard = require("guard")
local slots = require("slots")

local MAX_CHOICES = tonumber(os.getenv("DAYBREAK_MAX_CHOICES"))

local SEEN = "txn.daybreak_seen"  -- set: the whole body was here at once, and there is nothing in it to refuse

local body = {}

function body.too_large(txn, slot)
    slots.count(slot, "too_large")
    answers.refuse(txn, 413, "The request is larger than the " .. slot.max_body_bytes ..
        " bytes that this service takes.", "invalid_request_error", "request_too_large")
end

local function refuse_field(txn, slot, scanner)
    slots.count(slot, "refused")
    answers.refuse(txn, 400, scanner.message, "invalid_request_error", "invalid_body", { param = scanner.param })
end

-- A scanner for the request's body; nil if it is none that the engine would read as JSON. The type that the client
-- tells is not asked: not everybody who reads JSON minds it. Audio comes as a form.
local function scanner_for(txn)
    if txn.sf:method() == "POST" and txn.sf:path() ~= "/v1/audio/transcriptions" then
        return guard.new(MAX_CHOICES)
    end
end

-- Refuses a request whose body is here already, before it is held or counted. length: as the client has told it.
function body.look_at_first_bytes(txn, slot, length)
    local scanner = scanner_for(txn)
    if not scanner then
        return
    end
    local text = txn.sf:req_body()
    if length == #text and guard.harmless(text) then
        txn:set_var(SEEN, true)
    elseif scanner:feed(text) then
        refuse_field(txn, slot, scanner)
    end
end

local Body = { id = "Bodies", flags = filter.FLT_CFG_FL_HTX }
Body.__index = Body

function Body:new()
    return setmetatable({ seen = 0 }, Body)
end

function Body:http_headers(txn, message)
    if message.channel:is_resp() then
        return
    end
    debug.sethook()  -- as in hold.lua
    if txn:get_var(SEEN) then
        return
    end
    self.slot = slots.of(txn)
    if not self.slot then
        return
    end
    self.counts = txn.sf:req_hdr("transfer-encoding") ~= ""
    self.scanner = scanner_for(txn)
    if self.counts or self.scanner then
        filter.register_data_filter(self, message.channel)
    end
end

function Body:http_payload(txn, message)
    debug.sethook()
    if self.over then
        return  -- answered already: a second answer would wipe out the first
    end
    local text = message:body() or ""
    self.seen = self.seen + #text
    if self.counts and self.seen > self.slot.max_body_bytes then
        self.over = true
        body.too_large(txn, self.slot)
    end
    if self.scanner and self.scanner:feed(text) then
        self.over = true
        refuse_field(txn, self.slot, self.scanner)
    end
end

core.register_filter("body", Body, function(found) return found end)

return body
