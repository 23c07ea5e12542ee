-- Responses of the gateway itself, whether the model sleeps or not: the list of models, and requests of a
-- kind that no model answers. They never reach the service's own backend, so they neither wake it nor keep it
-- awake.

local answers = require("answers")
local keys = require("keys")
local slots = require("slots")

local LISTED = "txn.daybreak_listed"  -- the port of the service whose models are listed

-- Responds with the list of all models of a service.
local function list(applet)
    local port = applet:get_var(LISTED)
    local slot = slots.front_at(port)
    answers.list(applet, slot and keys.visible(applet, slot.listed.names, port) or {})
end

local function own(txn)
    debug.sethook()  -- as in hold.lua
    local slot = slots.front_of(txn)
    if not slot then
        return slots.unknown(txn, true, "txn.daybreak_own_untold")
    end
    local path, method = txn.sf:path(), txn.sf:method()
    local lists = path:find("^/v1/models") ~= nil
    local stored = path:match("^/v1/responses/(.*)$")
    local methods = slot.paths ~= "" and "GET, HEAD, POST, PUT, PATCH, DELETE" or lists and "GET, HEAD" or "POST"
    if method == "OPTIONS" then
        -- A page in a browser sends a preflight request before JSON; it has no key yet. HAProxy adds the
        -- response's headers if the page is allowed (haproxy.cfg.j2).
        answers.nothing(txn, { allow = methods })
    end
    if lists and (method == "GET" or method == "HEAD") then
        if path == "/v1/models" then
            txn:set_var(LISTED, txn.f:dst_port())
            return act.CONTINUE  -- explicit, see pause.lua
        end
        answers.model(txn, keys.visible(txn, slot.listed.names), path, function(name)
            answers.respond(txn, "model_not_found_none", { model = name })
        end)
    end
    slots.count(slot, "refused")
    if stored then
        answers.respond(txn, "response_not_found", { response = stored })
    end
    answers.respond(txn, "method_not_allowed_here", { method = method, methods = methods })
end

core.register_action("own", { "http-req" }, own)
core.register_service("list", "http", list)
