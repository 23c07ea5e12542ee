-- The API key that a request brings. Keys themselves are never kept, only their SHA-256 digests.

local bearer = {}

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

-- The digest of the request's key, in hexadecimal; nil if it brings none. Clients of Anthropic's API (/v1/messages)
-- send it as x-api-key.
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

-- Whether a key, by its digest, is one of those. Looks at all of them, whichever it is.
function bearer.opens(digest, allowed)
    local known = false
    for _, other in ipairs(allowed) do
        known = equal(digest, other) or known
    end
    return known
end

return bearer
