-- The namespace's one address: which service a request is for follows from the model that its body names.

local answers = require("answers")
local bearer = require("bearer")
local external = require("external")
local matches = require("matches")
local mirror = require("mirror")
local model = require("model")
local percent = require("percent")
local rename = require("rename")
local tally = require("tally")
local ways = require("ways")

-- Whether this is the HAProxy that has whole bodies, or the one that sees the beginnings of all.
local WHOLE = os.getenv("DAYBREAK_LATE") == "1"

local PORT = "txn.daybreak_port"
local FOUND = "txn.daybreak_found"
local NEXT = "txn.daybreak_next"    -- of a request that a backend of its route did not take, see ways.back()
local DOOR = "txn.daybreak_door"    -- the port of a route's own address, where a request has come to one
local OFFER = "txn.daybreak_offer"  -- told to the HAProxy that holds, where there is another backend

-- The map of all keys' digests, and of OPEN and UNREAD; nil in the one that has whole bodies: no client reaches that.
local KEYS = os.getenv("DAYBREAK_ROUTER_KEYS")
local ORIGINS = os.getenv("DAYBREAK_ROUTER_ORIGINS")  -- the map of origins whose pages may read answers; likewise
local MODELS = os.getenv("DAYBREAK_ROUTER_MODELS")    -- the map of the ports of models; likewise
local OPEN = "open"      -- in KEYS where a service takes requests without a key
local UNREAD = "unread"  -- in KEYS while a key cannot be read

local routes = {}  -- model → port of its service and keys (digests) that may ask for it; no keys: it is open to all
local known = {}   -- the models and the names of routes, in order
local mapped = {}  -- the keys of the map
local origins = {} -- the origins of theirs
local placed = {}  -- the ports of models, as the map has them
local told = {}    -- what has come of what is being told, by its command

-- The route whose own address a request has come to. of: a transaction or an applet. nil: it has come to the common address;
-- false: to one that no route has, or of which nothing was told yet.
local function entered(of)
    local door = of:get_var(DOOR)
    if door then
        return ways.at(math.tointeger(tonumber(door))) or false
    end
end

-- Where a name leads, for requests that have come to an address, see entered(): a model's port and keys, or a route. A model's
-- own name leads to the model; at a route's own address the route's names are all that there is.
local function leads(name, address)
    local route = ways.named(name)
    if address ~= nil then
        return nil, route == address and route or nil
    end
    return routes[name], not routes[name] and route or nil
end

-- The models that may be named at an address to who has a key of this digest (nil: none), in order: those of services that he
-- may use.
local function visible(digest, address)
    local names, asked = {}, {}
    for _, name in ipairs(known) do
        local found, route = leads(name, address)
        local keys = (found or route or {}).keys
        if keys and asked[keys] == nil then
            asked[keys] = #keys == 0 or digest ~= nil and bearer.opens(digest, keys)
        end
        names[#names + 1] = keys and asked[keys] and name or nil
    end
    return names
end

-- Returns what responds to a request for an unknown model if the client may use none at an address, see answers.unknown().
local function without_names(txn, address)
    return function(name)
        if address ~= nil then
            answers.respond(txn, "model_not_found_keyed_route", { model = name })
        elseif #known == 0 then
            answers.respond(txn, "model_not_found_empty_namespace", { model = name })
        else
            answers.respond(txn, "model_not_found_keyed_namespace", { model = name })
        end
    end
end

-- Answers who asks for one model by its name in the path.
local function describe(txn)
    local address = entered(txn)
    answers.model(txn, visible(bearer.digest(txn), address), txn.sf:path(), without_names(txn, address))
end

-- Answers who asks for all of them. Such a service sees no headers: HAProxy has looked at the key.
local function list(applet)
    local digest = applet:get_var("txn.daybreak_digest")
    answers.list(applet, visible(digest and digest:lower(), entered(applet)))
end

-- Whether the body ends with what is here. Nobody knows, where its length was not told.
local function is_whole(txn, text)
    if WHOLE then
        return true
    end
    local length = tonumber(txn.sf:req_hdr("content-length"))
    return length and length <= #text or not length and txn.sf:req_hdr("transfer-encoding") == ""
end

-- Sends a request the way that its route has for it, as a request for that model. match, tried, since: see ways.choose().
local function send_by(txn, chosen, name, from, to, match, tried, since)
    local way, offer
    if chosen then
        way, offer = ways.choose(txn, chosen, match, tried, since)
    end
    if not way then
        answers.respond(txn, "no_available_backend", { model = name })
    end
    rename.note(txn, way.model, from, to, model.FORMS[txn.sf:path()])
    if way.port == 0 then
        return external.choose(txn, chosen.id)
    end
    txn:set_var(PORT, way.port)
    txn:set_var(FOUND, percent.encoded(way.model))
    if offer then
        txn:set_var(OFFER, offer)
    end
end

-- Chooses the service, by what is here of the body. A name that stands further behind is found where the body is whole.
local function route(txn)
    local address = entered(txn)
    if address == false then
        answers.respond(txn, "route_not_ready")
    end
    local text = txn.sf:req_body()
    local name, well_formed, given_up, from, to
    if model.FORMS[txn.sf:path()] then
        name, well_formed, given_up, from, to = model.in_form(text, txn.sf:req_hdr("content-type"))
        if not name and not well_formed then
            answers.respond(txn, "form_required")
        end
    else
        name, well_formed, given_up, from, to = model.in_json(text)
        if given_up then
            answers.respond(txn, "model_too_late")
        end
    end
    if not name and not is_whole(txn, text) then
        txn:set_var("txn.daybreak_late", true)
        return
    end
    if not name and not well_formed then
        answers.respond(txn, "json_required")
    end
    if not name or name == "" then
        answers.respond(txn, "model_missing")
    end
    local back = txn:get_var(NEXT)
    if back then
        local chosen, tried, since = ways.back(back)
        return send_by(txn, chosen, name, from, to, nil, tried, since)
    end
    local found, chosen = leads(name, address)
    if not found then
        if chosen then
            local match, more = matches.first(txn, chosen, text, is_whole(txn, text))
            if more then
                txn:set_var("txn.daybreak_late", true)
                return
            end
            send_by(txn, chosen, name, from, to, match)
            mirror.copy(txn, chosen, text, is_whole(txn, text), from, to)
            return
        end
        answers.unknown(txn, name, visible(bearer.digest(txn), address), without_names(txn, address))
    end
    txn:set_var(PORT, found.port)
    txn:set_var(FOUND, percent.encoded(name))
end

-- Makes the entries of a map of HAProxy those of a table; before: the table of before.
local function keep(map, before, now)
    for key, value in pairs(now) do
        if before[key] ~= value then
            core.set_map(map, key, value)
        end
    end
    for key in pairs(before) do
        if now[key] == nil then
            core.del_map(map, key)
        end
    end
    return now
end

-- Says to HAProxy whose requests are listened to: nobody's body is waited for who may ask nothing here.
local function note_keys()
    local now = { [OPEN] = not next(routes) and "1" or nil }
    for _, route in pairs(routes) do
        now[OPEN] = now[OPEN] or #route.keys == 0 and "1" or nil
        for _, digest in ipairs(route.keys) do
            now[digest:find("[^0]") and digest:upper() or UNREAD] = "1"
        end
    end
    mapped = keep(KEYS, mapped, now)
end

-- Says to HAProxy where models are.
local function note_ports()
    local now = {}
    for name, route in pairs(routes) do
        now[name] = tostring(route.port)
    end
    placed = keep(MODELS, placed, now)
end

local function note_origins(words)
    local now = {}
    for word in words:gmatch("[^,]+") do
        now[percent.decoded(word)] = "1"
    end
    origins = keep(ORIGINS, origins, now)
end

-- Puts all names in order. A model's own name always leads to the model.
local function know()
    local names = {}
    for name in pairs(routes) do
        names[#names + 1] = name
    end
    for name in pairs(ways.names()) do
        names[#names + 1] = not routes[name] and name or nil
    end
    table.sort(names)
    known = names
end

-- <models>|<rings>|<origins>: <model>=<port>:<ring>,... <ring>=<digest>+<digest>...,... <origin>,...: all models anew, and
-- the keys that may ask for them; models and origins are percent-encoded. A ring that has no keys is open.
local function set(text)
    local words, keyed, pages = text:match("^([^|]*)|([^|]*)|([^|]*)$")
    local fresh, keys, none = {}, {}, {}
    for ring, digests in keyed:gmatch("(%d+)=([^,=]+)") do
        keys[ring] = {}
        for digest in digests:gmatch("%x+") do
            table.insert(keys[ring], digest)
        end
    end
    for name, port, ring in words:gmatch("([^,=]+)=(%d+):(%d+)") do
        name = percent.decoded(name)
        fresh[name] = { port = math.tointeger(tonumber(port)), keys = keys[ring] or none }
    end
    routes = fresh
    know()
    if KEYS then
        note_ports()
        note_keys()
        note_origins(pages)
    end
end

-- <route>:<header>:<digest>+...:<name>+...:<service>/<port>/<weight>/<model>+...:<since>:<service>/<port>/<ms>/<model>+...:
-- <match>+...:<copy>:<digest>/<name>+...:<own port>,...: all routes anew; what is no number is percent-encoded. No header: requests stick to nothing. No digests: it is named to all.
-- Where <since> is another one, what backends get is counted anew. The last are where requests go that were not taken, in order,
-- and for how long they are held before; 0: until the hold ends. Each match is <header>/<how>/<value>+...:<digest>+...:<path>+...:
-- <user>+...:<ways>, percent-encoded as a whole once more. <copy> is <service>/<port>/<per cent>/<model>. Then come keys that
-- requests stick to, by their names, and the port of the route's own address; none: it has none.
local function share(text)
    ways.set(text)
    know()
end

-- router <command> <at> <last> <piece>: a text in pieces from 0 to the last one, which is carried out then; "-" for none.
local function in_pieces(carry_out)
    return function(applet, _, command, at, last, piece)
        if at == "0" then
            told[command] = {}
        end
        local pieces = told[command] or {}
        pieces[#pieces + 1] = piece ~= "-" and piece or ""
        if #pieces ~= math.tointeger(tonumber(at)) + 1 then
            applet:send("a piece is missing\n")
            return
        end
        if at == last then
            carry_out(table.concat(pieces))
            told[command] = nil
        end
        applet:send("ok\n")
    end
end

core.register_action("describe", { "http-req" }, describe)
core.register_service("list", "http", list)
core.register_action("route", { "http-req" }, route)
core.register_cli({ "router", "set" }, "router set <at> <last> <models> : say where models are", in_pieces(set))
core.register_cli({ "router", "share" }, "router share <at> <last> <routes> : say which names lead to several models",
    in_pieces(share))
core.register_cli({ "router", "external" }, "router external <at> <last> <hosts> : say where models outside of the cluster are",
    in_pieces(external.set))
core.register_cli({ "router", "shares" }, "router shares : requests of each route by where they went, as JSON",
    function(applet) applet:send(ways.json() .. "\n") end)
core.register_cli({ "router", "tallies" }, "router tallies : what backends of routes have got, as JSON",
    function(applet) applet:send(tally.json() .. "\n") end)
core.register_cli({ "router", "ping" }, "router ping : answers", function(applet) applet:send("ok\n") end)
