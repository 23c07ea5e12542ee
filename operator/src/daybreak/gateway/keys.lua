-- API keys: who may use a service. Keys themselves are never here, only their SHA-256 digests.

local answers = require("answers")
local slots = require("slots")

local keys = {}

-- Whether two texts are equal, in a time that does not depend on where they differ.
local function equal(one, other)
    if #one ~= #other then
        return false
    end
    local difference = 0
    for at = 1, #one do
        difference = difference | (one:byte(at) ~ other:byte(at))
    end
    return difference == 0
end

-- Answers 401 unless the request brings one of the slot's keys; without any set, everybody may. The model does not
-- get to see the key.
function keys.check(txn, slot)
    if #slot.keys == 0 then
        return
    end
    local header = txn.sf:req_fhdr("authorization")
    local key = header:sub(1, 7):lower() == "bearer " and header:sub(8):match("^%s*(.-)%s*$") or ""
    local digest = txn.c:hex(txn.c:sha2(key, 256)):lower()
    local known = false
    for _, allowed in ipairs(slot.keys) do
        known = equal(digest, allowed) or known
    end
    if key == "" or not known then
        slots.count(slot, "unauthorized")
        answers.refuse(txn, 401, key == "" and "An API key is needed: Authorization: Bearer <key>." or
            "The API key is not valid for this service.", "invalid_request_error", "invalid_api_key",
            { headers = { ["www-authenticate"] = "Bearer" } })
    end
    txn.http:req_del_header("authorization")
end

return keys
