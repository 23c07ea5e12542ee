-- Copies of a route's requests, for a model under evaluation. No client waits for them, and their responses
-- are discarded: they are read in small pieces, whatever their size.
--
-- A request is copied only if it is completely here when it is sent: no copy waits or is stored. Copies
-- beyond the limits are omitted.

local answers = require("answers")
local model = require("model")
local tally = require("tally")

local GATEWAY = os.getenv("DAYBREAK_GATEWAY")  -- the address of the HAProxy that holds
local TOKEN = os.getenv("DAYBREAK_TOKEN")
local MOST_BODY = 256 * 1024       -- bytes of one body
local BUDGET = 4 * 1024 * 1024     -- bytes of copies in flight
local MOST = 32                    -- copies in flight
local SECONDS = 600                -- maximum silence of a model
local PIECE = 4096                 -- bytes
-- The last two mark a request as a health check: its copy is one as well, and no activity of the other model.
local GO_ALONG = { "content-type", "authorization", "x-api-key", "user-agent", "daybreak-health-check" }

local mirror = {}

local bytes, here = 0, 0

local function send(port, head, body)
    bytes, here = bytes + #body, here + 1
    core.register_task(function()
        local went, problem = pcall(function()
            local socket = core.tcp()
            socket:settimeout(SECONDS)
            if socket:connect(GATEWAY, port) then
                socket:send(head .. body)
                repeat
                    local piece = socket:receive(PIECE)
                until not piece
            end
            socket:close()
        end)
        bytes, here = bytes - #body, here - 1
        if not went then
            core.log(core.warning, "a copy of a request has failed: " .. tostring(problem))
        end
    end)
end

-- Returns whether the next request of a route is copied, exactly at its percentage.
local function is_due(to)
    to.credit = to.credit + to.weight
    if to.credit < 100 then
        return false
    end
    to.credit = to.credit - 100
    return true
end

-- Sends a copy of a request, if its route requires one. text: the body; whole: whether it is complete. from,
-- to: position of the model's name in it.
function mirror.copy(txn, route, text, whole, from, to)
    local way = route.mirror
    if not way or not is_due(way) or not whole or #text > MOST_BODY or bytes + #text > BUDGET or here >= MOST then
        return
    end
    local path, name = txn.sf:path(), way.model
    if not model.FORMS[path] then
        name, from, to = answers.quoted(name), from - 1, to + 1
    end
    local body = text:sub(1, from - 1) .. name .. text:sub(to + 1)
    local lines = {
        "POST " .. path .. " HTTP/1.1", "Host: daybreak-mirror", "Connection: close", "Content-Length: " .. #body,
        -- No source: a key that its service does not know is not a failed attempt of this client.
        "X-Daybreak-Routed: " .. TOKEN,
    }
    for _, header in ipairs(GO_ALONG) do
        local value = txn.sf:req_fhdr(header)
        if value ~= "" then
            lines[#lines + 1] = header .. ": " .. value
        end
    end
    tally.copied(route.id, way.id)
    send(way.port, table.concat(lines, "\r\n") .. "\r\n\r\n", body)
end

return mirror
