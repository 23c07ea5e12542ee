-- Gives tests what answers.lua sends: respond <name> <placeholder>=<percent-encoded value>...

local answers = require("answers")
local percent = require("percent")

core.register_cli({ "respond" }, "respond <name> <value>... : the response, as JSON", function(applet, _, name, ...)
    local values = {}
    for _, word in ipairs({ ... }) do
        local key, value = word:match("^([%l_]+)=(.*)$")
        if key then
            values[key] = percent.decoded(value)
        end
    end
    local headers, body = {}, nil
    local reply = {
        add_header = function(_, header, value)
            headers[#headers + 1] = answers.quoted(header) .. ":" .. answers.quoted(value)
        end,
        set_body = function(_, text) body = text end,
    }
    local status
    answers.respond({
        reply = function(_, about)
            status = about.status
            return reply
        end,
        done = function() end,
    }, name, values)
    applet:send(('{"status":%d,"headers":{%s},"body":%s}\n'):format(status, table.concat(headers, ","), answers.quoted(body)))
end)
