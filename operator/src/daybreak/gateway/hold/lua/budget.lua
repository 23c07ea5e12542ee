-- What held requests take, in bytes: one budget, and a share of it for each service, and for each client where half of
-- it is taken.
--
-- A held request has buffers for what has come of its body, and the kernel keeps some of the rest; what does not fit
-- there stays with the client. So a long body costs no more than they can take. A body costs what has come of it: a head
-- that announces one and sends none takes no room for it. Once the buffer is nearly full, nobody knows what the kernel keeps
-- behind it, and the most that it can is charged.

local BUDGET = tonumber(os.getenv("DAYBREAK_HOLD_BYTES"))
local KEPT = tonumber(os.getenv("DAYBREAK_KEPT_BYTES"))  -- the most of one body
local SHORT = BUDGET * tonumber(os.getenv("DAYBREAK_SHORT"))
local CLIENT = BUDGET * tonumber(os.getenv("DAYBREAK_CLIENT_SHARE"))
local SERVICE = BUDGET * tonumber(os.getenv("DAYBREAK_SERVICE_SHARE"))
local NEARLY_FULL = tonumber(os.getenv("DAYBREAK_BUFFER")) * 3 // 4  -- bytes of a buffer that has no room for much more
-- A request without its body: HAProxy's own, Lua's, the kernel's. Measured: 24 KiB, of a body of 100 bytes.
local OWN = 24 * 1024

local budget = { bytes = 0 }
local sources = {}   -- client -> bytes of his
local services = {}  -- port -> bytes of its service

-- What a request takes, and whether it can take more later. length: of its body, nil if nobody knows. here: bytes of it that
-- have come. head: bytes of its headers, which lie in the same buffer.
function budget.needed(length, here, head)
    if length and here >= length then
        return OWN + math.min(length, KEPT), false
    end
    if here + head >= NEARLY_FULL then
        return OWN + math.min(length or KEPT, KEPT), false
    end
    return OWN + here, true
end

-- Takes so many bytes more for a request. port: its service's. Returns whether there was room.
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
