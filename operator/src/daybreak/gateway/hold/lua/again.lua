-- Servers of each backend that are not models.
--
-- `again`: returns requests to the hold if no server could be reached. When a connection to a server fails,
-- HAProxy has sent nothing and tries another server. If there is none left, it would answer 503. Therefore
-- each backend has one more server, used while no other is up: the listener of that name in the same HAProxy.
-- It leads to the same backend, which holds the request like any other. The request then has two streams, of
-- which the second is not counted.
--
-- `next`: sends requests of a route that are not accepted here to the router, which sends them to the next
-- backend. Its weight is zero, so only hold.lua sends requests to it. Such a request no longer belongs to
-- this backend.

local slots_of = {}  -- see of()

local again = {}

local NAME, NEXT = "again", "next"

again.NEXT = NEXT

-- Returns the state of a backend's servers: whether `again` is ready and, for both servers once used, whether
-- they may have streams. A server object takes 1.6 KB in Lua and there are two thousand, so only used ones
-- are kept.
local function of(slot)
    local found = slots_of[slot.id]
    if not found then
        found = { ready = false }
        slots_of[slot.id] = found
    end
    return found
end

-- Returns whether a server name is one of these servers.
function again.is(name)
    return name == NAME or name == NEXT
end

-- Returns the number of backup servers of a slot that are up: Serve's proxies, in addition to replicas.
function again.backups_up(slot)
    return slot.backend:get_stats().bck - (of(slot).ready and 1 or 0)
end

-- Updates the state of `again`. Call it when a slot was set, or when a server has come up or gone down.
-- HAProxy uses one backup server at a time, and Serve's proxies take precedence. up: whether any other server
-- is up.
function again.note(slot, up)
    local known, ready = of(slot), again.backups_up(slot) == 0
    if known.ready and (not ready or known.up and not up) then
        known.ready = false
        slot.backend.servers[NAME]:set_maint()
    end
    if ready and not known.ready then
        -- A server that comes up takes the requests in HAProxy's queue, as does this one if no other is up.
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

-- Records that a request has returned.
function again.used(slot)
    use(slot, NAME)
end

-- Records that a request goes to the router.
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

-- Returns the number of streams that are not requests at the backend's models: duplicates, and requests that
-- moved to the next backend.
function again.streams(slot)
    local known = of(slot)
    return streams(known[NAME]) + streams(known[NEXT])
end

-- Returns the number of responses of a class, in HAProxy's naming, from these servers.
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
