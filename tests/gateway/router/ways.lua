-- Gives tests the choice of ways.lua: the first route of a word, as the router is told it.

local ways = require("ways")

local function route(word)
    ways.set(word)
    local _, found = next(ways.names())
    return found
end

-- spread <routes> <n>: where n requests go, one after the other, as indices.
core.register_cli({ "spread" }, "spread <routes> <n> : the ways of n requests", function(applet, _, word, n)
    local found, each, index = route(word), {}, {}
    for at, way in ipairs(found.ways) do
        index[way] = at - 1
    end
    for _ = 1, tonumber(n) do
        each[#each + 1] = index[ways.next(found)]
    end
    applet:send("[" .. table.concat(each, ",") .. "]\n")
end)

-- lead <routes> <n>: where n values lead.
core.register_cli({ "lead" }, "lead <routes> <n> : the ways of n values", function(applet, _, word, n)
    local found, each = route(word), {}
    for value = 1, tonumber(n) do
        local way = ways.of(found, "session-" .. value, function(text) return applet.c:xxh64(text) end)
        each[#each + 1] = '"' .. way.id .. '"'
    end
    applet:send("[" .. table.concat(each, ",") .. "]\n")
end)
