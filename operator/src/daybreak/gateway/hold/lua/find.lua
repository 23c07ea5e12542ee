-- Finds the model of a request where HAProxy's own query has found none, so that it waits at its model's gate and wakes
-- no other: what does not begin as JSON, escapes in the name, and forms. What stands behind the buffer's end is the
-- router's to find, whose buffers are large: it sends the request back with the name.

local model = require("model")
local slots = require("slots")

local LATE_BYTES = tonumber(os.getenv("DAYBREAK_LATE_BYTES"))  -- of the largest body that the router takes; 0: none

local function find(txn)
    debug.sethook()  -- as in hold.lua
    local port, text = txn.f:dst_port(), txn.sf:req_body()
    local name = model.named(txn.sf:path(), text, txn)
    if name and slots.leads[port .. "/" .. name] then
        txn:set_var("txn.daybreak_model", port .. "/" .. name)
    end
    local front = slots.fronts[port]
    if name or not front or front.model ~= "" or txn:get_var("txn.daybreak_routed") then
        return
    end
    -- A body whose length nobody knows may be as long as the service takes.
    local length = tonumber(txn.sf:req_hdr("content-length")) or
        txn.sf:req_hdr("transfer-encoding") ~= "" and front.max_body_bytes or 0
    if length > #text and length <= math.min(LATE_BYTES, front.max_body_bytes) then
        txn:set_var("txn.daybreak_late", true)
    end
end

core.register_action("find", { "http-req" }, find)
