-- Gives tests the scanner of guard.lua: scan <path> <extra> <max n> <piece> <piece> ..., in hexadecimal.

local guard = require("guard")

core.register_cli({ "scan" }, "scan <path> <extra> <max n> <piece>... : judge a body", function(applet, _, path, extra, max_n, ...)
    local scanner = guard.new(path, { choices = tonumber(max_n), items = 4 }, { [extra] = true })
    for _, piece in ipairs({ ... }) do
        if scanner:feed((piece:gsub("%x%x", function(hex) return string.char(tonumber(hex, 16)) end))) then
            break
        end
    end
    applet:send((scanner.message and "refused " .. (scanner.param or "-") or "passes") .. "\n")
end)

core.register_cli({ "cost" }, "cost <unit> <times> : ms to judge <unit> repeated, in pieces of 15 KB", function(applet, _, unit, times)
    unit = unit:gsub("%x%x", function(hex) return string.char(tonumber(hex, 16)) end)
    local body = '{"prompt": ' .. unit:rep(tonumber(times)) .. "}"
    local begun = os.clock()
    local scanner = guard.new("/v1/completions", { choices = 16, items = 1000000 })
    for at = 1, #body, 15000 do
        scanner:feed(body:sub(at, at + 14999))
    end
    applet:send(string.format('{"ms":%.3f,"bytes":%d}\n', (os.clock() - begun) * 1000, #body))
end)
