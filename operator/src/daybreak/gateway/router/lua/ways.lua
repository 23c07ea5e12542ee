-- Routes: names that clients send as a model, and that lead to models of several services, each with its share.
--
-- Smooth weighted round robin: after any number of requests no way has had a whole one more than its share, nor as many
-- fewer as there are ways. A request with the header that a route sticks to goes where that header's value leads, else where the
-- name of its API key does: weighted rendezvous hashing, so that every gateway chooses the same way, values spread by weight, and
-- a way that comes or goes moves only the values that are its own.

local bearer = require("bearer")
local external = require("external")
local matches = require("matches")
local percent = require("percent")
local tally = require("tally")

local ways = {}

local RANGE = 1 << 53  -- whole numbers up to here are exact as floating-point numbers

local routes = {}  -- name of a route's object → route
local names = {}   -- name that clients send → route
local doors = {}   -- port of a route's own address → route
local counts = {}  -- name of a route's object → way → requests; a way that has gone is counted on as long as the route is there

-- Which way comes next.
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

-- Where a value leads. hash: makes a whole number of 64 bits of a text.
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

-- The first of a route's fallbacks that was not tried yet. tried: ids of ways.
local function fallback(route, tried)
    for _, way in ipairs(route.fallback) do
        -- An external one takes only what has come from a backend: nobody else has looked at the API key.
        local new = way.port > 0 or #tried > 0 and external.is_there(route.id)
        for _, id in ipairs(tried) do
            new = new and id ~= way.id
        end
        if new then
            return way
        end
    end
end

-- What the HAProxy that holds is told where there is another way for a request: for how many ms it is held at most, and what
-- comes back with it: since when it is counted, its route and the ways that were tried. nil: there is none.
local function offer(route, tried)
    local way = fallback(route, tried)
    return way and string.format("%s:%s %s %s", way.weight > 0 and way.weight or "", tally.since(route.id), route.id,
        table.concat(tried, " "))
end

-- The route of a request that has come back, and the ways that were tried. nil: that route has gone.
function ways.back(text)
    local since, id, rest = text:match("^%d*:(%S*) (%S+) (.*)$")
    local tried = {}
    for way in (rest or ""):gmatch("%S+") do
        tried[#tried + 1] = way
    end
    return routes[id], tried, since
end

-- What a request sticks to; "": nothing.
local function value_of(txn, route)
    local value = route.sticky and txn.sf:req_fhdr(route.sticky) or ""
    if value == "" and next(route.holders) then
        value = route.holders[bearer.digest(txn) or ""] or ""
    end
    return value
end

-- Chooses the way of a request, and counts it. nil: there is none. Returns also what the HAProxy that holds is told.
-- match: from matches.first(), or nil. tried, since: of a request that has come back, from ways.back().
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

-- The route that a name stands for, or nil.
function ways.named(name)
    return names[name]
end

-- The route of an address of its own, by its port; nil: there is none.
function ways.at(port)
    return doors[port]
end

-- All names, in no order.
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

-- All routes anew, as shares.py writes them. One whose ways are what they were goes on where it was.
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
            -- Of two with one port, which should not be, the older one has it.
            port = math.tointeger(tonumber(port))
            own[port] = own[port] or route
        end
        fresh[id], counted[id], since[id] = route, counts[id] or {}, at
    end
    tally.set(since)
    routes, names, counts, doors = fresh, called, counted, own
end

-- What each way has got: JSON, by the route's object and the way, as they were told (percent-encoded).
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
