-- API key of a request. Keys themselves are never stored, only their SHA-256 digests.

local bearer = {}

-- Returns whether two texts are equal, in a time that does not depend on where they differ.
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

-- Returns the digest of the request's key, in hexadecimal; nil if it has none. Clients of Anthropic's API
-- (/v1/messages) send it as x-api-key.
function bearer.digest(txn)
    local header = txn.sf:req_fhdr("authorization")
    local key = header:sub(1, 7):lower() == "bearer " and header:sub(8):match("^%s*(.-)%s*$") or ""
    if key == "" then
        key = txn.sf:req_fhdr("x-api-key"):match("^%s*(.-)%s*$")
    end
    if key ~= "" then
        return txn.c:hex(txn.c:sha2(key, 256)):lower()
    end
end

-- Returns whether a key, by its digest, is in a list. It always compares all items, to take constant time.
function bearer.opens(digest, allowed)
    local known = false
    for _, other in ipairs(allowed) do
        known = equal(digest, other) or known
    end
    return known
end

return bearer
