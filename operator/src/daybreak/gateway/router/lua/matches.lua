-- Requests of a route with other destinations than the rest.

local bearer = require("bearer")
local model = require("model")
local percent = require("percent")

local matches = {}

local LONGEST = 128  -- maximum bytes of a value for a pattern: the matching time is cubic

local function each(words, carry_out)
    local found = {}
    for word in words:gmatch("[^+]+") do
        found[#found + 1] = carry_out(word)
    end
    return #found > 0 and found or nil
end

local function header(word)
    local name, how, value = word:match("^([^/]*)/([^/]*)/([^/]*)$")
    return { name = percent.decoded(name), how = how, value = percent.decoded(value) }
end

-- Parses matches in the format of shares.py, in order. read_ways: parses the destinations of one.
function matches.read(words, read_ways)
    return each(words, function(word)
        local headers, keys, paths, users, text = percent.decoded(word):match(
            "^([^:]*):([^:]*):([^:]*):([^:]*):([^:]*)$")
        local found = {
            headers = each(headers, header),
            keys = each(keys, tostring),
            paths = each(paths, percent.decoded),
            users = each(users, percent.decoded),
        }
        found.ways, found.weight = read_ways(text)
        return found
    end) or {}
end

local compared = {
    exact = function(value, wanted) return value == wanted end,
    prefix = function(value, wanted) return value:sub(1, #wanted) == wanted end,
    pattern = function(value, wanted) return #value <= LONGEST and value:find(wanted) ~= nil end,
}

local function one_of(value, wanted)
    for _, other in ipairs(wanted) do
        if value == other then
            return true
        end
    end
    return false
end

-- Returns whether the head satisfies all conditions of one match.
local function in_head(txn, one)
    for _, wanted in ipairs(one.headers or {}) do
        local value = txn.sf:req_fhdr(wanted.name)
        if value == "" or not compared[wanted.how](value, wanted.value) then
            return false
        end
    end
    if one.paths and not one_of(txn.sf:path(), one.paths) then
        return false
    end
    local digest = one.keys and bearer.digest(txn)
    return not one.keys or digest ~= nil and bearer.opens(digest, one.keys)
end

-- Returns the first match of a route that applies to a request, or nil. Second value: whether the result
-- needs more of the body. text: the received part of the body; whole: whether it is complete.
function matches.first(txn, route, text, whole)
    local user, looked
    for _, one in ipairs(route.matches) do
        if in_head(txn, one) then
            if not one.users then
                return one
            end
            if not looked and not model.FORMS[txn.sf:path()] then
                looked, user = true, model.field(text, "user")
                if not user and not whole then
                    return nil, true
                end
            end
            if user and one_of(user, one.users) then
                return one
            end
        end
    end
end

return matches
