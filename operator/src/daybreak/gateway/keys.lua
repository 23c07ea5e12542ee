-- API keys: who may use a service.

local answers = require("answers")
local bearer = require("bearer")
local slots = require("slots")

local keys = {}

-- Answers 401 unless the request brings one of the slot's keys; without any set, everybody may. The model does not
-- get to see the key.
function keys.check(txn, slot)
    if #slot.keys == 0 then
        return
    end
    local digest = bearer.digest(txn)
    if not digest or not bearer.opens(digest, slot.keys) then
        slots.count(slot, "unauthorized")
        answers.refuse(txn, 401, not digest and "An API key is needed: Authorization: Bearer <key>." or
            "The API key is not valid for this service.", "invalid_request_error", "invalid_api_key",
            { headers = { ["www-authenticate"] = "Bearer" } })
    end
    txn.http:req_del_header("authorization")
end

return keys
