-- The namespace's one address: which service a request is for follows from the model that its body names.

local answers = require("answers")
local bearer = require("bearer")
local model = require("model")
local percent = require("percent")

local MAX_BODY = tonumber(os.getenv("DAYBREAK_MAX_BODY"))  -- bytes of one body
local BUDGET = tonumber(os.getenv("DAYBREAK_BUDGET"))      -- bytes of all bodies that are here at a time

local BYTES = "txn.daybreak_bytes"
local PORT = "txn.daybreak_port"
local FOUND = "txn.daybreak_found"

local KEYS = os.getenv("DAYBREAK_ROUTER_KEYS")             -- the map of all keys' digests, and of OPEN and UNREAD
local OPEN = "open"                                        -- in it where a service takes requests without a key
local UNREAD = "unread"                                    -- in it while a key cannot be read

local routes = {}  -- model → port of its service and keys (digests) that may ask for it; no keys: it is open to all
local known = {}   -- the models in order
local mapped = {}  -- the keys of the map
local bytes = 0    -- of bodies that are here

local function invalid(txn, message, code, param)
    answers.refuse(txn, 400, message, "invalid_request_error", code, { param = param })
end

-- The models that may be named to who asks, in order: those of services that he may use.
local function visible(txn)
    local digest, names, asked = bearer.digest(txn), {}, {}
    for _, name in ipairs(known) do
        local keys = routes[name].keys
        if asked[keys] == nil then
            asked[keys] = #keys == 0 or digest ~= nil and bearer.opens(digest, keys)
        end
        names[#names + 1] = asked[keys] and name or nil
    end
    return names
end

-- What is said where no model may be named.
local function unnamed()
    return #known == 0 and "There is none in this namespace." or
        "There are models in this namespace whose names need an API key."
end

-- What may help, where a request has come to the common address.
local function own_address(txn)
    return txn:get_var(PORT) and "" or " Use the service's own address for it."
end

local function too_large(txn)
    answers.refuse(txn, 413, "The request is larger than the " .. MAX_BODY .. " bytes that this address takes." ..
        own_address(txn), "invalid_request_error", "request_too_large")
end

-- A body is counted from when it may come until the model answers, or the request ends.
local function count(txn, size)
    local before = txn:get_var(BYTES) or 0
    bytes = bytes + size - before
    if size > 0 then
        txn:set_var(BYTES, size)
    elseif before > 0 then
        txn:unset_var(BYTES)
    end
end

-- Looks at a request's head: answers at once what needs no body, and refuses bodies that there is no room for.
local function admit(txn)
    local path = txn.sf:path()
    if path:find("^/v1/models") then
        answers.models(txn, visible(txn), path, unnamed())
    end
    local length = tonumber(txn.sf:req_hdr("content-length"))
    if not length and txn.sf:req_hdr("transfer-encoding") ~= "" then
        length = MAX_BODY
    end
    length = length or 0
    if length > MAX_BODY then
        too_large(txn)
    end
    if bytes + length > BUDGET then
        answers.refuse(txn, 429, "Too many large requests wait here: try again later." .. own_address(txn),
            "rate_limit_error", "queue_full", { retry_after = 5 })
    end
    count(txn, length)
end

-- Chooses the service. The body is here, as far as there is room for it.
local function route(txn)
    local text = txn.sf:req_body()
    if #text > MAX_BODY then
        too_large(txn)
    end
    count(txn, #text)
    local name, well_formed, given_up
    if model.FORMS[txn.sf:path()] then
        name, well_formed = model.in_form(text, txn.sf:req_hdr("content-type"))
        if not name and not well_formed then
            invalid(txn, "The request must be a form (multipart/form-data).", "invalid_body")
        end
    else
        name, well_formed, given_up = model.in_json(text)
        if given_up then
            invalid(txn, "Too much stands before the field model: send it first." .. own_address(txn), "model_missing",
                "model")
        end
        if not name and not well_formed then
            invalid(txn, "The request's body must be a JSON object.", "invalid_body")
        end
    end
    if not name or name == "" then
        invalid(txn, "The request names no model: say which one in the field model.", "model_missing", "model")
    end
    local found = routes[name]
    if not found then
        answers.unknown(txn, name, visible(txn), unnamed())
    end
    txn:set_var(PORT, found.port)
    txn:set_var(FOUND, percent.encoded(name))
end

-- Finds the model of a request that has come to the service's own address already: what it names is for that to judge.
local function find(txn)
    local text = txn.sf:req_body()
    if #text > MAX_BODY then
        too_large(txn)
    end
    count(txn, #text)
    local name = model.named(txn.sf:path(), text, txn)
    if name then
        txn:set_var(FOUND, percent.encoded(name))
    end
end

local Bodies = { id = "Bodies", flags = filter.FLT_CFG_FL_HTX }
Bodies.__index = Bodies

function Bodies:new()
    return setmetatable({}, Bodies)
end

function Bodies:http_headers(txn, message)
    if message.channel:is_resp() then
        count(txn, 0)
    end
end

function Bodies:end_analyze(txn)
    count(txn, 0)
end

-- Says to HAProxy whose requests are listened to: nobody's body is waited for who may ask nothing here.
local function note_keys()
    local now = { [OPEN] = #known == 0 or nil }
    for _, route in pairs(routes) do
        now[OPEN] = now[OPEN] or #route.keys == 0 or nil
        for _, digest in ipairs(route.keys) do
            now[digest:find("[^0]") and digest:upper() or UNREAD] = true
        end
    end
    for key in pairs(now) do
        if not mapped[key] then
            core.set_map(KEYS, key, "1")
        end
    end
    for key in pairs(mapped) do
        if not now[key] then
            core.del_map(KEYS, key)
        end
    end
    mapped = now
end

-- router set <model>=<port>:<ring>,... <ring>=<digest>+<digest>...,...: all routes anew, the models percent-encoded, and
-- the keys that may ask for them; "-" for none. A ring that has no keys is open.
local function set(applet, _, _, words, keyed)
    local fresh, names, keys, none = {}, {}, {}, {}
    for ring, digests in keyed:gmatch("(%d+)=([^,=]+)") do
        keys[ring] = {}
        for digest in digests:gmatch("%x+") do
            table.insert(keys[ring], digest)
        end
    end
    for name, port, ring in words:gmatch("([^,=]+)=(%d+):(%d+)") do
        name = percent.decoded(name)
        fresh[name] = { port = math.tointeger(tonumber(port)), keys = keys[ring] or none }
        names[#names + 1] = name
    end
    table.sort(names)
    routes, known = fresh, names
    note_keys()
    applet:send("ok\n")
end

local function show(applet)
    applet:send(string.format('{"models":%d,"bytes":%d,"lua_kib":%d}\n', #known, bytes, collectgarbage("count") // 1))
end

core.register_action("admit", { "http-req" }, admit)
core.register_action("route", { "http-req" }, route)
core.register_action("find", { "http-req" }, find)
core.register_filter("bodies", Bodies, function(found) return found end)
core.register_cli({ "router", "set" }, "router set <routes> <keys> : say where models are", set)
core.register_cli({ "router", "show" }, "router show : how many models and bytes are here, as JSON", show)
