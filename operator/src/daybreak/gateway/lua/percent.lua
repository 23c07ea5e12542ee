-- Percent-encoding, as in URLs and in the words of commands.

local percent = {}

function percent.decoded(text)
    return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

function percent.encoded(text)
    return (text:gsub("[^%w._~-]", function(char) return string.format("%%%02X", char:byte()) end))
end

return percent
