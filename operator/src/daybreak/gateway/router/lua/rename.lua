-- Replaces the model's name in a request's body while it passes. In the HAProxy that clients reach it is a
-- filter of a backend for such requests only, so that no other request has a filter. In the other HAProxy
-- late.lua's filter calls it.

local answers = require("answers")
local tally = require("tally")

local FROM = "txn.daybreak_from"        -- bytes of the body before the name
local CUT = "txn.daybreak_cut"          -- bytes of the name as it was sent
local WRITTEN = "txn.daybreak_written"  -- replacement for the name

local rename = {}

-- Records the replacement. from, to: position of the name in the body, without the quotation marks of JSON.
function rename.note(txn, name, from, to, form)
    if not form then
        name, from, to = answers.quoted(name), from - 1, to + 1
    end
    txn:set_var(FROM, from - 1)
    txn:set_var(CUT, to - from + 1)
    txn:set_var(WRITTEN, name)
end

-- Handles the head of a request: sets the length of the changed body.
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

-- Handles the first part of the body, which contains the name: it was found in the received part.
function rename.body(filtered, txn, message)
    if filtered.renamed then
        return
    end
    filtered.renamed = true
    local written = txn:get_var(WRITTEN)
    local went, size = pcall(message.set, message, written, txn:get_var(FROM), txn:get_var(CUT))
    if not went or size ~= #written then
        txn:done()  -- a body whose length differs from its header must not continue
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
