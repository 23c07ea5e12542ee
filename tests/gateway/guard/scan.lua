-- Gives tests the scanner of guard.lua: scan <path> <extra> <max n> <piece> <piece> ..., in hexadecimal.

local guard = require("guard")

core.register_cli({ "scan" }, "scan <path> <extra> <max n> <piece>... : judge a body", function(applet, _, path, extra, max_n, ...)
    local scanner = guard.new(path, { choices = tonumber(max_n), items = 4, salt = 128 }, { [extra] = true })
    for _, piece in ipairs({ ... }) do
        if scanner:feed((piece:gsub("%x%x", function(hex) return string.char(tonumber(hex, 16)) end))) then
            break
        end
    end
    applet:send((scanner.refusal and "refused " .. (scanner.values.param or "-") or "passes") .. "\n")
end)

-- Counted and not timed: it is the same on every machine. What string.find does counts as one.
core.register_cli({ "work" }, "work <unit> <times> : what Lua does to judge <unit> repeated", function(applet, _, unit, times)
    unit = unit:gsub("%x%x", function(hex) return string.char(tonumber(hex, 16)) end)
    local body = '{"prompt": ' .. unit:rep(tonumber(times)) .. "}"
    local pieces = {}
    for at = 1, #body, 15000 do
        pieces[#pieces + 1] = body:sub(at, at + 14999)
    end
    local scanner = guard.new("/v1/completions", { choices = 16, items = 1000000, salt = 128 })
    local instructions = 0
    debug.sethook(function() instructions = instructions + 100 end, "", 100)
    for _, piece in ipairs(pieces) do
        scanner:feed(piece)
    end
    debug.sethook()
    applet:send(string.format('{"instructions":%d,"bytes":%d}\n', instructions, #body))
end)
