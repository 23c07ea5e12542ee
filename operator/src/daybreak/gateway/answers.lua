-- What the gateway answers itself: JSON, errors in OpenAI's shape.

local answers = {}

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

function answers.quoted(text)
    return '"' .. text:gsub('[%c"\\]', function(char)
        return ESCAPES[char] or string.format("\\u%04x", char:byte())
    end) .. '"'
end

local quoted = answers.quoted

-- Answers with JSON and ends the request: what follows a call is not run.
local function send(txn, status, body, headers)
    local reply = txn:reply({ status = status })
    reply:add_header("content-type", "application/json")
    reply:add_header("cache-control", "no-store")
    for name, value in pairs(headers or {}) do
        reply:add_header(name, tostring(value))
    end
    reply:set_body(body)
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

local function model(name)
    return '{"id": ' .. quoted(name) .. ', "object": "model", "created": 0, "owned_by": "daybreak"}'
end

-- Answers /v1/models or /v1/models/<name>.
function answers.models(txn, names, path)
    local wanted = path:match("^/v1/models/(.+)$")
    local list = {}
    for _, name in ipairs(names) do
        if wanted == name then
            send(txn, 200, model(name))
        end
        list[#list + 1] = model(name)
    end
    if wanted then
        answers.refuse(txn, 404, "The model " .. wanted .. " does not exist. There is: " ..
            table.concat(names, ", "), "invalid_request_error", "model_not_found")
    end
    send(txn, 200, '{"object": "list", "data": [' .. table.concat(list, ", ") .. "]}")
end

return answers
