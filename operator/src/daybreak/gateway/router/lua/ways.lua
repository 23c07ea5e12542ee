-- Routes: names that clients send as a model, and that lead to weighted models of several services (ways).
--
-- The choice is smooth weighted round robin: after any number of requests no way is a whole request above its
-- share, nor as many below it as there are ways. A request with the route's affinity header goes to the way
-- of that header's value; otherwise to the way of its API key's name. Affinity uses weighted rendezvous
-- hashing: every gateway chooses the same way, values spread by weight, and a way that is added or removed
-- moves only its own values.

local bearer = require("bearer")
local external = require("external")
local matches = require("matches")
local percent = require("percent")
local tally = require("tally")

local ways = {}

local RANGE = 1 << 53  -- whole numbers up to here are exact as floating-point numbers

local routes = {}  -- name of a route's object → route
local names = {}   -- name that clients send → route
local doors = {}   -- port of a route's dedicated address → route
local counts = {}  -- name of a route's object → way → requests, removed ways included

-- Returns the next way of the round robin.
function ways.next(route)
    local best
    for _, way in ipairs(route.ways) do
        way.credit = way.credit + way.weight
        if not best or way.credit > best.credit then
            best = way
        end
    end
    if best then
        best.credit = best.credit - route.weight
    end
    return best
end

-- Returns the way of a value. hash: returns a 64-bit whole number for a text.
function ways.of(route, value, hash)
    local best, nearest
    for _, way in ipairs(route.ways) do
        local part = ((hash(way.id .. "\n" .. value) >> 11) + 1) / RANGE  -- above 0, up to 1
        local distance = -math.log(part) / way.weight
        if not best or distance < nearest then
            best, nearest = way, distance
        end
    end
    return best
end

-- Returns the first fallback of a route that was not tried yet. tried: ids of ways.
local function fallback(route, tried)
    for _, way in ipairs(route.fallback) do
        -- An external model accepts only requests from a backend: no other component has checked the API key.
        local new = way.port > 0 or #tried > 0 and external.is_there(route.id)
        for _, id in ipairs(tried) do
            new = new and id ~= way.id
        end
        if new then
            return way
        end
    end
end

-- Returns the offer of another way for the HAProxy that holds, or nil if there is none: the maximum ms of its
-- hold, and the data that returns with the request. The data are the start of the counts, the route and the
-- tried ways.
local function offer(route, tried)
    local way = fallback(route, tried)
    return way and string.format("%s:%s %s %s", way.weight > 0 and way.weight or "", tally.since(route.id), route.id,
        table.concat(tried, " "))
end

-- Returns the route of a returned request, and the ways that were tried. nil: that route was removed.
function ways.back(text)
    local since, id, rest = text:match("^%d*:(%S*) (%S+) (.*)$")
    local tried = {}
    for way in (rest or ""):gmatch("%S+") do
        tried[#tried + 1] = way
    end
    return routes[id], tried, since
end

-- Returns the affinity value of a request; "": none.
local function value_of(txn, route)
    local value = route.sticky and txn.sf:req_fhdr(route.sticky) or ""
    if value == "" and next(route.holders) then
        value = route.holders[bearer.digest(txn) or ""] or ""
    end
    return value
end

-- Chooses the way of a request, and counts it; nil: there is none. Also returns the offer for the HAProxy
-- that holds. match: from matches.first(), or nil. tried, since: of a returned request, from ways.back().
function ways.choose(txn, route, match, tried, since)
    local among = match or route
    local value, way = value_of(txn, route), nil
    if tried then
        way = fallback(route, tried)
    elseif value ~= "" then
        way = ways.of(among, value, function(text) return txn.c:xxh64(text) end)
    else
        way = ways.next(among)
    end
    way = way or not tried and fallback(route, {}) or nil
    if way and tried then
        tally.passed_on(since, route.id, tried[#tried])
    end
    if way then
        local counted = counts[route.id]
        counted[way.id] = (counted[way.id] or 0) + 1
        tally.sent(txn, route.id, way.id)
        tried = tried or {}
        tried[#tried + 1] = way.id
    end
    return way, way and offer(route, tried)
end

-- Returns the route of a name, or nil.
function ways.named(name)
    return names[name]
end

-- Returns the route of a dedicated address, by its port, or nil.
function ways.at(port)
    return doors[port]
end

-- Returns all names, unordered.
function ways.names()
    return names
end

local function read_ways(words)
    local found, weight = {}, 0
    for service, port, share, model in words:gmatch("([^/+]+)/(%d+)/(%d+)/([^/+]+)") do
        local one = {
            port = math.tointeger(tonumber(port)),
            weight = math.tointeger(tonumber(share)),
            model = percent.decoded(model),
            id = service .. "/" .. model,
            credit = 0,
        }
        weight = weight + one.weight
        found[#found + 1] = one
    end
    return found, weight
end

-- Replaces all routes, in the format of shares.py. A route with unchanged ways continues its round robin.
function ways.set(words)
    local fresh, called, counted, since, own = {}, {}, {}, {}, {}
    local each = "([^,:]+)" .. (":([^,:]*)"):rep(10)
    for id, sticky, keys, said, text, at, next_, matched, copied, held, port in words:gmatch(each) do
        local before, route = routes[id], { id = id, text = text, matched = matched, keys = {}, holders = {} }
        if before and before.text == text then
            route.ways, route.weight = before.ways, before.weight
        else
            route.ways, route.weight = read_ways(text)
        end
        route.matches = before and before.matched == matched and before.matches or matches.read(matched, read_ways)
        route.copied = copied
        route.mirror = before and before.copied == copied and before.mirror or read_ways(copied)[1]
        route.fallback = read_ways(next_)
        route.sticky = sticky ~= "" and percent.decoded(sticky) or nil
        for digest in keys:gmatch("%x+") do
            table.insert(route.keys, digest)
        end
        for digest, name in held:gmatch("(%x+)/([^+]+)") do
            route.holders[digest] = percent.decoded(name)
        end
        for name in said:gmatch("[^+]+") do
            called[percent.decoded(name)] = route
        end
        if port ~= "" then
            -- Of two routes with one port, which should not occur, the older one has it.
            port = math.tointeger(tonumber(port))
            own[port] = own[port] or route
        end
        fresh[id], counted[id], since[id] = route, counts[id] or {}, at
    end
    tally.set(since)
    routes, names, counts, doors = fresh, called, counted, own
end

-- Returns the counts of each way as JSON, by the route's object and the way, percent-encoded as they were
-- received.
function ways.json()
    local each = {}
    for id, counted in pairs(counts) do
        local got = {}
        for way, count in pairs(counted) do
            got[#got + 1] = '"' .. way .. '":' .. count
        end
        each[#each + 1] = '"' .. id .. '":{' .. table.concat(got, ",") .. "}"
    end
    return "{" .. table.concat(each, ",") .. "}"
end

return ways
