-- Marks servers down that answer each request with an immediate error. Such a server is the least busy one,
-- so it would receive most requests until its next health check, which may be 20 s away. After a few
-- consecutive errors it is down until a check succeeds.
--
-- HAProxy can do this itself (observe layer7), but with one limit for errors of requests and of connections.
-- A server that refuses a connection must be down at the first error, see hold/servers.py.

local again = require("again")
local slots = require("slots")

local IN_A_ROW = tonumber(os.getenv("DAYBREAK_ERRORS_IN_A_ROW"))

local seen = {}  -- <backend>/<server> -> its responses at the last one that was not an error

-- Handles an error response of a server. It does nothing if no other server is up: a client's own request may
-- be the cause.
local function failing(txn)
    debug.sethook()  -- as in hold.lua
    local id, name = txn.f:be_name(), txn.f:srv_name()
    local slot = slots.all[id]
    local server = slot and name and not again.is(name) and slot.backend.servers[name]
    if not server then
        return
    end
    local stats = server:get_stats()
    local good = (stats.hrsp_2xx or 0) + (stats.hrsp_3xx or 0) + (stats.hrsp_4xx or 0)
    -- The current response is counted when it ends.
    local bad = (stats.hrsp_5xx or 0) + 1
    local key = id .. "/" .. name
    local before = seen[key]
    if not before or before.good ~= good or bad < before.bad then
        before = { good = good, bad = bad - 1 }
        seen[key] = before
    end
    if bad - before.bad >= IN_A_ROW and slot.backend:get_srv_act() > 1 then
        server:check_force_down()
    end
end

core.register_action("failing", { "http-res" }, failing)
