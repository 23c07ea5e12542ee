-- Finds the model of a request if HAProxy's own query found none. The request then waits at its model's gate
-- and wakes no other model. This covers bodies that do not begin as JSON, names with escapes, and forms. A
-- name behind the end of the buffer is left to the router, which has large buffers and returns the request
-- with the name.

local model = require("model")
local slots = require("slots")

local LATE_BYTES = tonumber(os.getenv("DAYBREAK_LATE_BYTES"))  -- maximum body bytes of the router; 0: none

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
    -- A body of unknown length may be as long as the service accepts.
    local length = tonumber(txn.sf:req_hdr("content-length")) or
        txn.sf:req_hdr("transfer-encoding") ~= "" and front.max_body_bytes or 0
    if length > #text and length <= math.min(LATE_BYTES, front.max_body_bytes) then
        txn:set_var("txn.daybreak_late", true)
    end
end

core.register_action("find", { "http-req" }, find)
