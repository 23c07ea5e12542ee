-- Responses of the gateway itself: JSON, with errors in OpenAI's format.

local percent = require("percent")
local responses = require("responses")

local answers = {}

local MOST_NAMES = 50  -- maximum number of models that an error lists
local AT_ONCE = 50     -- models of a list that are written together

local UNREADABLE = "\u{FFFD}"

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

-- Returns the text in UTF-8, as JSON requires. A client's name may be any bytes: half of a surrogate pair,
-- another encoding, or a name cut within a character.
local function in_utf8(text)
    if not text:find("[\128-\255]") then
        return text
    end
    -- Surrogates are invalid, and not every version of Lua reports them. No other character has this first
    -- byte with such a second one.
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

-- Responds, with JSON if there is a body, and ends the request: code after a call is not run.
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

-- Returns a text with its placeholders replaced, or nil for a text that is one placeholder without a value.
-- Any other placeholder without a value stays: a wrong message is better than none.
local function filled(text, values)
    local only = text:match("^{([%l_]+)}$")
    if only then
        return values[only] and tostring(values[only])
    end
    return (text:gsub("{([%l_]+)}", function(name) return values[name] and tostring(values[name]) end))
end

-- Sends an error response of responses.json, and ends the request. values: of its placeholders, by their
-- names.
function answers.respond(txn, name, values)
    local response, headers = responses[name], {}
    values = values or {}
    for header, text in pairs(response.headers) do
        headers[header] = filled(text, values)
    end
    local param = response.param and filled(response.param, values)
    send(txn, response.status, '{"error": {"message": ' .. quoted(filled(response.message, values) or "") ..
        ', "type": ' .. quoted(response.type) .. ', "param": ' .. (param and quoted(param) or "null") .. ', "code": ' ..
        quoted(response.code) .. "}}", headers)
end

-- Answers a health check of a sleeping model, which is healthy. name: of the model; empty: a service with
-- several.
function answers.asleep(txn, name)
    send(txn, 200, '{"status": "asleep", "model": ' .. (name ~= "" and quoted(name) or "null") .. ', "choices": []}')
end

-- Responds with headers only.
function answers.nothing(txn, headers)
    send(txn, 204, nil, headers)
end

-- Responds to a request for an unknown model. names: the models that the client may use. none: a function of
-- the name, which responds if there are none.
function answers.unknown(txn, name, names, none)
    if #names == 0 then
        return none(name)
    end
    local listed = table.concat(names, ", ", 1, math.min(#names, MOST_NAMES))
    if #names > MOST_NAMES then
        answers.respond(txn, "model_not_found_of_many", { model = name, names = listed })
    else
        answers.respond(txn, "model_not_found", { model = name, names = listed })
    end
end

local function model(name)
    return '{"id": ' .. quoted(name) .. ', "object": "model", "created": 0, "owned_by": "daybreak"}'
end

-- Answers /v1/models from an HTTP service, because the response may exceed HAProxy's buffer.
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
