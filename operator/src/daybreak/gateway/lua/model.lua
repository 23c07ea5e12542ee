-- Finds the model that a request's body names, in JSON or in a form. It reads only up to the name: whether
-- the rest is well formed is checked by the model.

local model = {
    FORMS = { ["/v1/audio/transcriptions"] = true, ["/v1/audio/translations"] = true },  -- others take JSON
}

local find, byte, sub = string.find, string.byte, string.sub

local LONGEST_NAME = 512  -- bytes
local FORM_HEAD = 4096    -- bytes of a form field's own head, its value included
local BACKSLASH = ("\\"):byte()
-- Maximum quotation marks and brackets before the name, because a search blocks all other requests.
local MOST_STEPS = 200000
local TOO_MANY = {}

local steps = 0

local function step()
    steps = steps + 1
    if steps > MOST_STEPS then
        error(TOO_MANY)
    end
end

local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function unescaped(text)
    local pieces, at = {}, 1
    while true do
        local slash = find(text, "\\", at, true)
        if not slash then
            pieces[#pieces + 1] = sub(text, at)
            return table.concat(pieces)
        end
        pieces[#pieces + 1] = sub(text, at, slash - 1)
        local char, hex = sub(text, slash + 1, slash + 1), text:match("^u(%x%x%x%x)", slash + 1)
        at = slash + 2
        if hex then
            local code = tonumber(hex, 16)
            -- A character beyond 16 bits is written as two surrogates.
            local half = code >> 10 == 0x36 and text:match("^\\u([dD][c-fC-F]%x%x)", slash + 6)
            if half then
                code = 0x10000 + ((code & 0x3ff) << 10) + (tonumber(half, 16) & 0x3ff)
            end
            char = utf8.char(code)
            at = slash + (half and 12 or 6)
        end
        pieces[#pieces + 1] = not hex and ESCAPES[char] or char
    end
end

-- Returns the position of the quotation mark that ends the string whose content begins at `at`, or nil.
local function string_end(text, at)
    local from = at
    while true do
        local quote = find(text, '"', from, true)
        if not quote then
            return nil
        end
        step()
        local slash = quote - 1
        while slash >= at and byte(text, slash) == BACKSLASH do
            slash = slash - 1
        end
        if (quote - slash) % 2 == 1 then
            return quote
        end
        from = quote + 1
    end
end

-- Returns the position after the list or object that begins at `at`, or nil if it has no end.
local function behind_brackets(text, at)
    local depth = 0
    repeat
        at = find(text, '["{}%[%]]', at)
        if not at then
            return nil
        end
        step()
        local char = sub(text, at, at)
        if char == '"' then
            at = string_end(text, at + 1)
            if not at then
                return nil
            end
        elseif char == "{" or char == "[" then
            depth = depth + 1
        else
            depth = depth - 1
        end
        at = at + 1
    until depth == 0
    return at
end

local function in_json(text, wanted)
    local at = find(text, "[^ \t\r\n]", sub(text, 1, 3) == "\xEF\xBB\xBF" and 4 or 1)
    if not at or sub(text, at, at) ~= "{" then
        return nil, false
    end
    local empty = find(text, "^[ \t\r\n]*}", at + 1)
    if empty then
        return nil, true
    end
    while true do
        local _, opens = find(text, '^[ \t\r\n]*"', at + 1)
        local closes = opens and string_end(text, opens + 1)
        if not closes then
            return nil, false
        end
        local key = closes - opens < LONGEST_NAME and unescaped(sub(text, opens + 1, closes - 1)) or ""
        local _, colon = find(text, "^[ \t\r\n]*:[ \t\r\n]*", closes + 1)
        if not colon then
            return nil, false
        end
        at = colon + 1
        local char = sub(text, at, at)
        if char == '"' then
            closes = string_end(text, at + 1)
            if not closes then
                return nil, false
            end
            if key == wanted then
                return unescaped(sub(text, at + 1, math.min(closes - 1, at + LONGEST_NAME))), true, at + 1, closes - 1
            end
            at = closes + 1
        elseif char == "{" or char == "[" then
            at = behind_brackets(text, at)
        else
            at = find(text, "[^%w.+-]", at)
        end
        at = at and find(text, "[^ \t\r\n]", at)
        char = at and sub(text, at, at)
        if char == "}" then
            return nil, true
        end
        if char ~= "," then
            return nil, false
        end
    end
end

-- Returns the model that a JSON body names and, as fourth and fifth values, its position: the first and last
-- byte between its quotation marks. Without a model it returns nil and two flags: whether the text read so
-- far is an object's JSON, and whether too much precedes the name.
function model.in_json(text)
    steps = 0
    local went, name, well_formed, from, to = pcall(in_json, text, "model")
    if not went and name ~= TOO_MANY then
        error(name)
    end
    if not went then
        return nil, true, true
    end
    return name, well_formed, false, from, to
end

-- Returns whether a name occurs in quotation marks and before a colon. A plain search is many times faster
-- than a pattern, and most chat bodies have a `"user"` that is not a key.
local function is_key(text, name)
    local quoted, from, to = '"' .. name .. '"', nil, 1
    repeat
        from, to = find(text, quoted, to, true)
    until not from or find(text, "^[ \t\r\n]*:", to + 1)
    return from ~= nil
end

-- Returns a text field of a JSON body by its name; nil if the received part lacks it, or too much precedes
-- it.
function model.field(text, name)
    -- Most bodies do not have it, and this check is faster.
    if not is_key(text, name) and not find(text, "\\u", 1, true) then
        return nil
    end
    steps = 0
    local went, found = pcall(in_json, text, name)
    if not went and found ~= TOO_MANY then
        error(found)
    end
    return went and found or nil
end

-- Returns the model that a form (multipart/form-data) names and, as fourth and fifth values, its first and
-- last byte. Without a model it returns nil and whether it is a form.
function model.in_form(text, content_type)
    local boundary = content_type:match('[;%s][bB][oO][uU][nN][dD][aA][rR][yY]="([^"]+)"')
        or content_type:match("[;%s][bB][oO][uU][nN][dD][aA][rR][yY]=([^;%s]+)")
    if not boundary then
        return nil, false
    end
    boundary = "--" .. boundary
    local at = find(text, boundary, 1, true)
    while at do
        local part = sub(text, at + #boundary, at + #boundary + FORM_HEAD)
        local head, value = part:match("^\r\n(.-\r\n)\r\n(.*)$")
        local named = head and head:lower():find('content%-disposition:[^\r\n]*[;%s]name="?model"?[;\r%s]')
        if named then
            local ends = find(value, "\r\n" .. boundary, 1, true)
            if not ends then
                return nil, true
            end
            local from = at + #boundary + #part - #value
            return sub(value, 1, math.min(ends - 1, LONGEST_NAME)), true, false, from, from + ends - 2
        end
        at = find(text, "\r\n" .. boundary, at + #boundary, true)
        at = at and at + 2
    end
    return nil, true
end

-- Returns the model that a request to a path names, in JSON or in a form; nil if the received part of its
-- body names none.
function model.named(path, text, txn)
    if model.FORMS[path] then
        return (model.in_form(text, txn.sf:req_hdr("content-type")))
    end
    return (model.in_json(text))
end

return model
