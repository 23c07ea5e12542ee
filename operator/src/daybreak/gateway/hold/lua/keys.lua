-- API keys: access control of services. HAProxy's own rules look up each request's key in a map, with its
-- head (haproxy.cfg.j2), so a request with a valid key needs no Lua. This module fills the maps and sends the
-- error responses.

local answers = require("answers")
local percent = require("percent")
local slots = require("slots")

local ACCESS = os.getenv("DAYBREAK_ACCESS")  -- the map of ports of services to whether a key is needed
local KEYS = os.getenv("DAYBREAK_KEYS")      -- the map of <port>/<digest> to the key's properties
local USES = "key_uses"                          -- the table of the usage of each key
local SOURCE = "txn.daybreak_source"         -- a client's address

local keys = {}

local rings = {}  -- port of a service -> the slot that its keys came with, and their entries in the map

local NEVER = 99999999999  -- seconds since 1970
local ANY = 4000000000     -- requests
local SPARE = 4            -- times the free capacity of a hold that a key, or all clients, may use

-- Parses the keys in a word of `daybreak set`: <name>:<digest>:<expires>:<per minute>:<in
-- flight>:<held>:<models>,... A digest of zeros is an unreadable key; 0 or an empty value is no limit.
function keys.parsed(value)
    local found = {}
    for word in value:gmatch("[^,]+") do
        local name, digest, expires, per_minute, in_flight, held, models =
            word:match("^([^:]+):(%x+):(%d+):(%d+):(%d+):(%d*):(.*)$")
        local key = { name = percent.decoded(name), digest = digest:upper(), held = tonumber(held), refused = 0 }
        key.limits = ("%s|%s|%s"):format(expires == "0" and NEVER or expires, per_minute == "0" and ANY or per_minute,
            in_flight == "0" and ANY or in_flight)
        for model in models:gmatch("[^+]+") do
            key.models = key.models or {}
            key.models[percent.decoded(model)] = true
        end
        found[#found + 1] = key
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

-- Configures the access to a service in HAProxy. Call it when the slot that takes its requests was set or
-- removed. New keys are added before old ones are deleted: during a key rotation a client with one of two
-- keys is never rejected.
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
            entries[key.digest] = key.name .. "|" .. key.limits .. "|" .. (key.models and "some" or "all") .. "|" ..
                (#slot.keys == 1 and "only" or "of several")
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
    local by_name, before = {}, ring and ring.by_name or {}
    for _, key in ipairs(slot.keys) do
        key.refused = before[key.name] and before[key.name].refused or 0
        by_name[key.name] = key
    end
    rings[port] = { slot = slot, entries = entries, by_name = by_name }
end

-- Returns the key of a request by its port and the key's name, and the number of keys of the service; nil if
-- it needs no key.
local function find(port, name)
    local ring = name and rings[port]
    return ring and ring.by_name[name], ring and #ring.slot.keys
end

-- Returns the same for a request.
function keys.of(txn)
    return find(txn.f:dst_port(), txn:get_var("txn.daybreak_key"))
end

-- Returns those names that the request's key may use. port: of the request.
function keys.visible(txn, names, port)
    local key, found = find(port or txn.f:dst_port(), txn:get_var("txn.daybreak_key")), {}
    for _, name in ipairs(names) do
        found[#found + 1] = (not key or not key.models or key.models[name]) and name or nil
    end
    return found
end

local function refuse(txn, slot, key, name, values)
    key.refused = key.refused + 1
    slots.count(slot, "key_limited")
    answers.respond(txn, name, values)
end

-- Answers 403 if the key may not use the model. name: nil if the received part of the body has no name; the
-- engine would then choose.
function keys.check_model(txn, slot, name)
    local key = keys.of(txn)
    if key and key.models and not name then
        refuse(txn, slot, key, "model_not_allowed_unnamed")
    elseif key and key.models and not key.models[name] then
        refuse(txn, slot, key, "model_not_allowed", { model = name })
    end
end

-- Returns the owner of a request: the name of its key, or the address of its client, which no key's name
-- equals.
function keys.whose(txn)
    local key = keys.of(txn)
    return key and key.name or "@" .. (txn:get_var(SOURCE) or "")
end

-- Answers 429 if a key has its maximum number of held requests, or a client if no key is needed. With several
-- keys none may use the whole hold. Each may have four times the remaining capacity, so there is always
-- capacity for the next one.
function keys.check_held(txn, slot)
    local key, others = keys.of(txn)
    local whose = keys.whose(txn)
    local held = slot.held_by and slot.held_by[whose] or 0
    local room = math.max(1, SPARE * (slot.max_held - slot.held))
    if not key and held >= room then
        slots.count(slot, "hold_full")
        answers.respond(txn, "hold_full_address", { held = held, retry_after = slot.retry_after })
    end
    if key and held >= (key.held or others > 1 and room or ANY) then
        refuse(txn, slot, key, "hold_full_key", { held = held, retry_after = slot.retry_after })
    end
    return whose
end

-- Counts one more or one less held request of an owner, see whose(), after all other checks have passed.
function keys.count_held(slot, whose, more)
    slot.held_by = slot.held_by or {}
    local held = (slot.held_by[whose] or 0) + more
    slot.held_by[whose] = held > 0 and held or nil
end

-- Returns the usage of each key of a service whose requests the slot takes, as JSON; "" for other slots.
function keys.told(slot)
    local ring = rings[slot.port]
    if not ring or ring.slot ~= slot or not next(ring.by_name) then
        return ""
    end
    local rows = {}
    for name, key in pairs(ring.by_name) do
        local row = core.proxies[USES].stktable:lookup(slot.port .. "/" .. name) or {}
        rows[#rows + 1] = string.format('%s:{"requests":%d,"in_flight":%d,"refused":%d}', answers.quoted(name),
            row.http_req_cnt or 0, row.conn_cur or 0, key.refused)
    end
    return ',"keys":{' .. table.concat(rows, ",") .. "}"
end

-- Handles a port whose key requirement is not configured yet, or that has no service.
local function untold(txn)
    debug.sethook()  -- as in hold.lua
    local port = txn.f:dst_port()
    if not rings[port] then
        return slots.unknown(txn, true, "txn.daybreak_key_untold")
    end
    return act.CONTINUE  -- explicit, see pause.lua
end

-- Answers requests without a valid key. While a key of the service cannot be read, it is unknown whether the
-- request's key is wrong: 503, so that the client retries.
local function locked(txn)
    debug.sethook()
    local ring = rings[txn.f:dst_port()]
    if not ring then
        return  -- the next rule rejects
    end
    local key = keys.of(txn)
    if key and txn:get_var("txn.daybreak_expired") then
        slots.count(ring.slot, "unauthorized")
        answers.respond(txn, "api_key_expired")
    end
    if key then
        refuse(txn, ring.slot, key, "rate_limit_exceeded")
    end
    local brought = txn:get_var("txn.daybreak_digest")
    if brought and txn:get_var("txn.daybreak_access") == "unread" then
        slots.count(ring.slot, "keys_unread")
        answers.respond(txn, "api_keys_unavailable")
    end
    slots.count(ring.slot, "unauthorized")
    if not brought then
        answers.respond(txn, "api_key_missing")
    else
        answers.respond(txn, "api_key_invalid")
    end
end

core.register_action("untold", { "http-req" }, untold)
core.register_action("locked", { "http-req" }, locked)

return keys
