-- Requests that no server could be reached for come back to the hold.
--
-- When a connection to a server fails, HAProxy has sent nothing, and tries another server. Where there is none left, it
-- would answer 503. So each backend has one more server, `again`, used while no other is up: the listener of that name
-- in this same HAProxy, which leads to the same backend, where the request is held as every other one is. It is one
-- request with two streams then: the second is not counted.

local slots_of = {}  -- see again.of

local again = {}

local NAME = "again"

-- What is known of a backend's server: ready, and whether it has ever been used.
local function of(slot)
    local found = slots_of[slot.id]
    if not found then
        found = { server = slot.backend.servers[NAME], ready = false, used = false }
        slots_of[slot.id] = found
    end
    return found
end

-- Whether an event is about it.
function again.is(name)
    return name == NAME
end

-- Backup servers of a slot that are up: Serve's proxies, beside replicas.
function again.backups_up(slot)
    return slot.backend:get_stats().bck - (of(slot).ready and 1 or 0)
end

-- To be called when a slot was set, or a server has come up or gone down. HAProxy takes one backup server at a time, and
-- Serve's proxies come first. up: whether any other server is.
function again.note(slot, up)
    local known, ready = of(slot), again.backups_up(slot) == 0
    if known.ready and (not ready or known.up and not up) then
        known.ready = false
        known.server:set_maint()
    end
    if ready and not known.ready then
        -- A server that comes takes what waits in HAProxy's queue, and so does this one where no other is up.
        known.ready = true
        known.server:set_ready()
    end
    known.up = up
end

-- A request has come back.
function again.used(slot)
    local known = of(slot)
    known.used, known.here = true, true
end

-- Streams that are there twice.
function again.streams(slot)
    local known = of(slot)
    if not known.here then
        return 0
    end
    local count = known.server:get_stats().scur
    known.here = count > 0
    return count
end

-- Answers that were counted twice, by the class of their status, among HAProxy's names for them.
function again.answers(slot)
    local known = of(slot)
    return known.used and known.server:get_stats() or {}
end

return again
