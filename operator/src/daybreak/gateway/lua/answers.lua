-- What the gateway answers itself: JSON, errors in OpenAI's shape.

local percent = require("percent")

local answers = {}

local MOST_NAMES = 50  -- how many models an error names
local AT_ONCE = 50     -- how many models of a list are written together

local UNREADABLE = "\u{FFFD}"

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

-- The text in UTF-8, as JSON must be. What a client names may be any bytes: half a pair of surrogates, another encoding, or a
-- name that was cut within a letter.
local function in_utf8(text)
    if not text:find("[\128-\255]") then
        return text
    end
    -- A surrogate is no letter, and not each version of Lua says so. No other letter has this first byte with such a second one.
    text = text:gsub("\xED[\xA0-\xBF][\x80-\xBF]", UNREADABLE)
    local pieces, at = {}, 1
    while true do
        local _, bad = utf8.len(text, at)
        if not bad then
            pieces[#pieces + 1] = text:sub(at)
            return table.concat(pieces)
        end
        pieces[#pieces + 1] = text:sub(at, bad - 1) .. UNREADABLE
        at = text:find("[^\128-\191]", bad + 1) or #text + 1
    end
end

function answers.quoted(text)
    return '"' .. in_utf8(text):gsub('[%c"\\]', function(char)
        return ESCAPES[char] or string.format("\\u%04x", char:byte())
    end) .. '"'
end

local quoted = answers.quoted

-- Answers, with JSON if there is a body, and ends the request: what follows a call is not run.
local function send(txn, status, body, headers)
    local reply = txn:reply({ status = status })
    reply:add_header("cache-control", "no-store")
    for name, value in pairs(headers or {}) do
        reply:add_header(name, tostring(value))
    end
    if body then
        reply:add_header("content-type", "application/json")
        reply:set_body(body)
    end
    txn:done(reply)
end

-- more: retry_after in seconds, param (the field that is wrong), headers.
function answers.refuse(txn, status, message, kind, code, more)
    more = more or {}
    local headers = more.headers or {}
    headers["retry-after"] = more.retry_after
    send(txn, status, '{"error": {"message": ' .. quoted(message) .. ', "type": ' .. quoted(kind) .. ', "param": ' ..
        (more.param and quoted(more.param) or "null") .. ', "code": ' .. quoted(code) .. "}}", headers)
end

-- Answers a health check of a model that sleeps, which is healthy. name: the model's; empty: of a service with several.
function answers.asleep(txn, name)
    send(txn, 200, '{"status": "asleep", "model": ' .. (name ~= "" and quoted(name) or "null") .. ', "choices": []}')
end

-- Answers with headers alone.
function answers.nothing(txn, headers)
    send(txn, 204, nil, headers)
end

function answers.no_service(txn)
    answers.refuse(txn, 404, "There is no such service.", "invalid_request_error", "not_found")
end

-- A model that is not there. names: what is, as far as it may be told; none: what is said where nothing may be.
function answers.unknown(txn, name, names, none)
    local there = #names == 0 and (none or "There is none.") or
        (#names > MOST_NAMES and "There are, among others: " or "There is: ") ..
        table.concat(names, ", ", 1, math.min(#names, MOST_NAMES)) .. "."
    answers.refuse(txn, 404, "The model " .. name .. " does not exist. " .. there, "invalid_request_error",
        "model_not_found", { param = "model" })
end

local function model(name)
    return '{"id": ' .. quoted(name) .. ', "object": "model", "created": 0, "owned_by": "daybreak"}'
end

-- Answers /v1/models from an HTTP service, which may say more than HAProxy's buffer takes.
function answers.list(applet, names)
    applet:set_status(200)
    applet:add_header("cache-control", "no-store")
    applet:add_header("content-type", "application/json")
    applet:start_response()
    if applet.method == "HEAD" then
        return
    end
    applet:send('{"object": "list", "data": [')
    for from = 1, #names, AT_ONCE do
        local some = {}
        for at = from, math.min(from + AT_ONCE - 1, #names) do
            some[#some + 1] = model(names[at])
        end
        applet:send((from > 1 and ", " or "") .. table.concat(some, ", "))
    end
    applet:send("]}")
end

-- Answers /v1/models/<name>. none: as in unknown().
function answers.model(txn, names, path, none)
    local wanted = percent.decoded(path:match("^/v1/models/(.*)$"))
    for _, name in ipairs(names) do
        if wanted == name then
            send(txn, 200, model(name))
        end
    end
    answers.unknown(txn, wanted, names, none)
end

return answers
