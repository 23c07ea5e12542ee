-- Memory of held requests, in bytes: one budget, with a share for each service, and a share for each client
-- once half of the budget is used.
--
-- A held request has buffers for the received part of its body, and the kernel keeps some of the rest; the
-- remainder stays with the client. Therefore a long body costs no more than these can hold. A body costs its
-- received part: a head that announces a body without sending one takes no memory for it. Once the buffer is
-- nearly full, the amount in the kernel is unknown, and the maximum is charged.

local BUDGET = tonumber(os.getenv("DAYBREAK_HOLD_BYTES"))
local KEPT = tonumber(os.getenv("DAYBREAK_KEPT_BYTES"))  -- maximum for one body
local SHORT = BUDGET * tonumber(os.getenv("DAYBREAK_SHORT"))
local CLIENT = BUDGET * tonumber(os.getenv("DAYBREAK_CLIENT_SHARE"))
local SERVICE = BUDGET * tonumber(os.getenv("DAYBREAK_SERVICE_SHARE"))
local NEARLY_FULL = tonumber(os.getenv("DAYBREAK_BUFFER")) * 3 // 4  -- bytes of a buffer with little space left
-- A request without its body in HAProxy, Lua and the kernel. Measured: 24 KiB, with a body of 100 bytes.
local OWN = 24 * 1024

local budget = { bytes = 0 }
local sources = {}   -- client -> its bytes
local services = {}  -- port -> bytes of its service

-- Returns the bytes of a request, and whether it can take more later. length: of its body, nil if unknown.
-- here: received bytes of the body. head: bytes of its headers, which are in the same buffer.
function budget.needed(length, here, head)
    if length and here >= length then
        return OWN + math.min(length, KEPT), false
    end
    if here + head >= NEARLY_FULL then
        return OWN + math.min(length or KEPT, KEPT), false
    end
    return OWN + here, true
end

-- Charges more bytes for a request. port: of its service. Returns whether the budget allows it.
function budget.take(port, source, bytes)
    local all = budget.bytes + bytes
    local his, its = (sources[source] or 0) + bytes, (services[port] or 0) + bytes
    if all > BUDGET or its > SERVICE or all > SHORT and his > CLIENT then
        return false
    end
    budget.bytes, sources[source], services[port] = all, his, its
    return true
end

local function less(table, key, bytes)
    local left = (table[key] or 0) - bytes
    table[key] = left > 0 and left or nil
end

function budget.give_back(place)
    budget.bytes = budget.bytes - place.bytes
    less(sources, place.source, place.bytes)
    less(services, place.port, place.bytes)
end

return budget
