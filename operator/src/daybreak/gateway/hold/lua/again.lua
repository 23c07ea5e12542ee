-- Servers of each backend that are no model.
--
-- `again`: requests that no server could be reached for come back to the hold. When a connection to a server fails, HAProxy
-- has sent nothing, and tries another server. Where there is none left, it would answer 503. So each backend has one more
-- server, used while no other is up: the listener of that name in this same HAProxy, which leads to the same backend, where
-- the request is held as every other one is. It is one request with two streams then: the second is not counted.
--
-- `next`: requests of a route that are not taken here go to the router, which sends them to the next backend. It has no
-- weight: nobody comes there whom hold.lua has not sent. Who went there is no request of this backend's any more.

local slots_of = {}  -- see of()

local again = {}

local NAME, NEXT = "again", "next"

again.NEXT = NEXT

-- What is known of a backend's servers: whether `again` is ready, and of both, once they were used, whether there may be
-- streams to them. To Lua a server is 1.6 KB, so only those that were used are kept: there are two thousand.
local function of(slot)
    local found = slots_of[slot.id]
    if not found then
        found = { ready = false }
        slots_of[slot.id] = found
    end
    return found
end

-- Whether it is one of them.
function again.is(name)
    return name == NAME or name == NEXT
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
        slot.backend.servers[NAME]:set_maint()
    end
    if ready and not known.ready then
        -- A server that comes takes what waits in HAProxy's queue, and so does this one where no other is up.
        known.ready = true
        slot.backend.servers[NAME]:set_ready()
    end
    known.up = up
end

local function use(slot, name)
    local known = of(slot)
    known[name] = known[name] or { server = slot.backend.servers[name] }
    known[name].here = true
end

-- A request has come back.
function again.used(slot)
    use(slot, NAME)
end

-- A request goes to the router.
function again.went_on(slot)
    use(slot, NEXT)
end

local function streams(one)
    if not one or not one.here then
        return 0
    end
    local count = one.server:get_stats().scur
    one.here = count > 0
    return count
end

-- Streams of the backend that are no requests at its models: those that are there twice, and those that went on.
function again.streams(slot)
    local known = of(slot)
    return streams(known[NAME]) + streams(known[NEXT])
end

-- How many answers of a class, among HAProxy's names for them, they had.
function again.answers(slot, class)
    local known, found = of(slot), 0
    for _, name in ipairs({ NAME, NEXT }) do
        if known[name] then
            found = found + (known[name].server:get_stats()[class] or 0)
        end
    end
    return found
end

return again
