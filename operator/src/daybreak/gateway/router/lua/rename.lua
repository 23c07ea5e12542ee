-- Writes another model's name into a request's body while it passes. In the HAProxy that clients reach it is a filter of a
-- backend that such requests alone take, so that no other one has a filter; in the other one, what late.lua's filter does.

local answers = require("answers")
local tally = require("tally")

local FROM = "txn.daybreak_from"        -- bytes of the body before the name
local CUT = "txn.daybreak_cut"          -- bytes of the name as it was sent
local WRITTEN = "txn.daybreak_written"  -- what is written instead of it

local rename = {}

-- Notes what is to be written. from, to: where the name stands in the body, the quotation marks of JSON not included.
function rename.note(txn, name, from, to, form)
    if not form then
        name, from, to = answers.quoted(name), from - 1, to + 1
    end
    txn:set_var(FROM, from - 1)
    txn:set_var(CUT, to - from + 1)
    txn:set_var(WRITTEN, name)
end

-- The head of a request passes: from now on the length is that of the body as it will be.
function rename.head(filtered, txn, message)
    local written = txn:get_var(WRITTEN)
    if not written then
        return
    end
    local length = math.tointeger(tonumber(txn.sf:req_hdr("content-length")))
    if length then
        message:set_header("content-length", tostring(length + #written - txn:get_var(CUT)))
    end
    filter.register_data_filter(filtered, message.channel)
end

-- The first of the body passes. The name is in it: it was found in what is here.
function rename.body(filtered, txn, message)
    if filtered.renamed then
        return
    end
    filtered.renamed = true
    local written = txn:get_var(WRITTEN)
    local went, size = pcall(message.set, message, written, txn:get_var(FROM), txn:get_var(CUT))
    if not went or size ~= #written then
        txn:done()  -- a body of another length than was told must not go on
        return
    end
    filter.unregister_data_filter(filtered, message.channel)
end

local Rename = { id = "Rename", flags = filter.FLT_CFG_FL_HTX }
Rename.__index = Rename

function Rename:new()
    return setmetatable({}, Rename)
end

function Rename:http_headers(txn, message)
    if not message.channel:is_resp() then
        rename.head(self, txn, message)
    elseif tally.head(txn) then
        filter.register_data_filter(self, message.channel)
    end
end

function Rename:http_payload(txn, message)
    if not message.channel:is_resp() then
        rename.body(self, txn, message)
    elseif message:input() > 0 then
        tally.first(txn)
        filter.unregister_data_filter(self, message.channel)
    end
end

function Rename:end_analyze(txn, channel)
    if channel:is_resp() then
        tally.ended(txn)
    end
end

core.register_filter("rename", Rename, function(found) return found end)

return rename
