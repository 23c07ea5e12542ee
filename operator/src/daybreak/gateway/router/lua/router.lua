-- Common address of the namespace: the model that a request's body names determines its service.

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

-- Whether this HAProxy buffers whole bodies, or sees only their beginnings.
local WHOLE = os.getenv("DAYBREAK_LATE") == "1"

local PORT = "txn.daybreak_port"
local FOUND = "txn.daybreak_found"
local NEXT = "txn.daybreak_next"    -- of a request that a route's backend did not accept, see ways.back()
local DOOR = "txn.daybreak_door"    -- the port of a route's dedicated address, if a request has come to one
local OFFER = "txn.daybreak_offer"  -- sent to the HAProxy that holds, if there is another backend

-- The map of all keys' digests, and of OPEN and UNREAD; nil in the HAProxy that buffers whole bodies, which
-- no client reaches.
local KEYS = os.getenv("DAYBREAK_ROUTER_KEYS")
local ORIGINS = os.getenv("DAYBREAK_ROUTER_ORIGINS")  -- the map of origins whose pages may read responses
local MODELS = os.getenv("DAYBREAK_ROUTER_MODELS")    -- the map of the ports of models; likewise
local OPEN = "open"      -- in KEYS if a service accepts requests without a key
local UNREAD = "unread"  -- in KEYS while a key cannot be read

local routes = {}  -- model → port of its service and digests of allowed keys; no keys: it is open to all
local known = {}   -- the models and the names of routes, in order
local mapped = {}  -- the keys of the map
local origins = {} -- the origins of the services
local placed = {}  -- the ports of models in the map
local told = {}    -- the received part of a text, by its command

-- Returns the route whose dedicated address a request has come to. of: a transaction or an applet. nil: the
-- common address; false: an address that no route has, or that is not configured yet.
local function entered(of)
    local door = of:get_var(DOOR)
    if door then
        return ways.at(math.tointeger(tonumber(door))) or false
    end
end

-- Returns the destination of a name at an address, see entered(): a model's port and keys, or a route. A
-- model's own name leads to the model; a route's dedicated address serves the route's names only.
local function leads(name, address)
    local route = ways.named(name)
    if address ~= nil then
        return nil, route == address and route or nil
    end
    return routes[name], not routes[name] and route or nil
end

-- Returns the models that a client with a key of this digest (nil: none) may use at an address, in order.
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

-- Returns what responds to a request for an unknown model if the client may use none at an address, see
-- answers.unknown().
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

-- Responds with one model by its name in the path.
local function describe(txn)
    local address = entered(txn)
    answers.model(txn, visible(bearer.digest(txn), address), txn.sf:path(), without_names(txn, address))
end

-- Responds with the list of all models. An HTTP service sees no headers: HAProxy has read the key.
local function list(applet)
    local digest = applet:get_var("txn.daybreak_digest")
    answers.list(applet, visible(digest and digest:lower(), entered(applet)))
end

-- Returns whether the received part is the whole body. That is unknown without an announced length.
local function is_whole(txn, text)
    if WHOLE then
        return true
    end
    local length = tonumber(txn.sf:req_hdr("content-length"))
    return length and length <= #text or not length and txn.sf:req_hdr("transfer-encoding") == ""
end

-- Sends a request to the destination that its route chooses, with that model's name. match, tried, since: see
-- ways.choose().
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

-- Chooses the service, by the received part of the body. A name further behind is found by the HAProxy that
-- buffers whole bodies.
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

-- Updates a map of HAProxy to the entries of a table; before: the previous table.
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

-- Configures in HAProxy the keys whose requests are accepted: it waits for no body of a client without
-- access.
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

-- Configures in HAProxy the ports of models.
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

-- Sorts all names. A model's own name always leads to the model.
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

-- Replaces all models and their keys: <models>|<rings>|<origins> with <model>=<port>:<ring>,...
-- <ring>=<digest>+<digest>...,... <origin>,... Models and origins are percent-encoded. A ring without keys is
-- open.
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

-- Replaces all routes:
-- <route>:<header>:<digest>+...:<name>+...:<service>/<port>/<weight>/<model>+...:<since>:
-- <service>/<port>/<ms>/<model>+...:<match>+...:<copy>:<digest>/<name>+...:<own port>,...
-- All but numbers is percent-encoded. No header: no affinity. No digests: all clients see the names. A
-- changed <since> restarts the counts of the backends. After it come the fallbacks, in order, with the ms for
-- which a request is held before them; 0: until its hold ends. Each match is
-- <header>/<how>/<value>+...:<digest>+...:<path>+...:<user>+...:<ways>, percent-encoded as a whole once more.
-- <copy> is <service>/<port>/<per cent>/<model>. Then come keys with their names, for affinity by key, and
-- the port of the route's dedicated address; none: it has none.
local function share(text)
    ways.set(text)
    know()
end

-- router <command> <at> <last> <piece>: a text in pieces from 0 to the last one, which then takes effect; "-"
-- for none.
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
