-- API keys: who may use a service. HAProxy's own rules look each request's key up in a map, with its head
-- (haproxy.cfg.j2), so who brings one that fits costs no Lua. Here the maps are filled, and it is said what is wrong.

local answers = require("answers")
local percent = require("percent")
local slots = require("slots")

local ACCESS = os.getenv("DAYBREAK_ACCESS")  -- the map of ports of services to whether a key is needed
local KEYS = os.getenv("DAYBREAK_KEYS")      -- the map of <port>/<digest> to what is known of the key
local RETRY_AFTER = 10                       -- seconds; within about that time a gateway has a new Secret

local keys = {}

local rings = {}  -- port of a service -> the slot that its keys came with, and their entries in the map

-- What a word of `daybreak set` says of the keys: <name>:<digest>,... A digest of zeros is of a key that nobody can read.
function keys.parsed(value)
    local found = {}
    for name, digest in value:gmatch("([^,:]+):(%x+)") do
        found[#found + 1] = { name = percent.decoded(name), digest = digest:upper() }
    end
    return found
end

local function fill(port, before, entries)
    for key, value in pairs(entries) do
        if before[key] ~= value then
            core.set_map(KEYS, port .. "/" .. key, value)
        end
    end
    for key in pairs(before) do
        if not entries[key] then
            core.del_map(KEYS, port .. "/" .. key)
        end
    end
end

-- Says to HAProxy who may use a service. To be called when the slot was set that takes its requests, or has gone. What
-- is new comes before what goes: who has one of two keys while they change is never refused.
function keys.note(slot)
    local port = slot.port
    local ring = rings[port]
    if slot.gone then
        if ring and ring.slot == slot then
            core.del_map(ACCESS, tostring(port))
            fill(port, ring.entries, {})
            rings[port] = nil
        end
        return
    end
    if slot.front ~= 1 then
        return
    end
    local entries, unread = {}, false
    for _, key in ipairs(slot.keys) do
        if key.digest:find("[^0]") then
            entries[key.digest] = key.name
        else
            unread = true
        end
    end
    local access = #slot.keys == 0 and "open" or unread and "unread" or "keyed"
    if access ~= "open" then
        core.set_map(ACCESS, tostring(port), access)
    end
    fill(port, ring and ring.entries or {}, entries)
    if access == "open" then
        core.set_map(ACCESS, tostring(port), access)
    end
    rings[port] = { slot = slot, entries = entries }
end

-- Nobody has told yet whether the service needs a key, or there is none at this port.
local function untold(txn)
    debug.sethook()  -- as in hold.lua
    local port = txn.f:dst_port()
    if not rings[port] then
        return slots.unknown(txn, true)
    end
end

-- Answers who has no key that fits. While a key of the service cannot be read nobody knows whether his is wrong: 503,
-- to be tried again.
local function locked(txn)
    debug.sethook()
    local ring = rings[txn.f:dst_port()]
    if not ring then
        return  -- the rule behind this one refuses
    end
    local brought = txn:get_var("txn.daybreak_digest")
    if brought and txn:get_var("txn.daybreak_access") == "unread" then
        slots.count(ring.slot, "keys_unread")
        answers.refuse(txn, 503, "An API key of this service cannot be read yet: try again. If that lasts, its " ..
            "Secret is missing.", "server_error", "api_keys_unread", { retry_after = RETRY_AFTER })
    end
    slots.count(ring.slot, "unauthorized")
    answers.refuse(txn, 401, not brought and "An API key is needed: Authorization: Bearer <key>." or
        "The API key is not valid for this service.", "invalid_request_error", "invalid_api_key",
        { headers = { ["www-authenticate"] = "Bearer" } })
end

core.register_action("untold", { "http-req" }, untold)
core.register_action("locked", { "http-req" }, locked)

return keys
