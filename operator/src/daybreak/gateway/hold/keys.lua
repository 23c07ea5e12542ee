-- API keys: who may use a service.

local answers = require("answers")
local bearer = require("bearer")
local slots = require("slots")

local keys = {}

local UNREAD = string.rep("0", 64)  -- in place of a key that the agent cannot read
local RETRY_AFTER = 10              -- seconds; within about that time a gateway with a new Secret is there

-- Lets the request on if it brings a key that fits. The model does not get to see the key.
function keys.check(txn, slot)
    if keys.admit(txn, slot) then
        txn.http:req_del_header("authorization")
        txn.http:req_del_header("x-api-key")
    end
end

-- Answers 401 unless the request brings one of the slot's keys; without any set, everybody may. While one of them
-- cannot be read nobody knows whether a key is wrong: 503, to be tried again. Returns whether there is any.
function keys.admit(txn, slot)
    if #slot.keys == 0 then
        return false
    end
    local digest = bearer.digest(txn)
    if not digest or not bearer.opens(digest, slot.keys) then
        if digest and bearer.opens(UNREAD, slot.keys) then
            slots.count(slot, "keys_unread")
            answers.refuse(txn, 503, "An API key of this service cannot be read yet: try again. If that lasts, its " ..
                "Secret is missing.", "server_error", "api_keys_unread", { retry_after = RETRY_AFTER })
        end
        slots.count(slot, "unauthorized")
        answers.refuse(txn, 401, not digest and "An API key is needed: Authorization: Bearer <key>." or
            "The API key is not valid for this service.", "invalid_request_error", "invalid_api_key",
            { headers = { ["www-authenticate"] = "Bearer" } })
    end
    return true
end

return keys
