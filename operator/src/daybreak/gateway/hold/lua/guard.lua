-- Checks the fields of a request's body: rejects the fields that its path does not allow (gateway/fields),
-- and limits the number of choices and items. Unlisted fields pass, because engines ignore unknown fields.
-- vLLM has had advisories for templates and processors that a client sends, which run code or burn time on
-- the engine's machine; `n` and lists multiply the work.
--
-- A body is read piece by piece and never stored: the scanner keeps only its position in the JSON. It checks
-- every occurrence of a key, also if a later one would override it. Invalid JSON passes, because the model
-- rejects it.

local fields = require("fields")

local guard = {}

local INSIDE = { chat_template = "refused" }
local NONE = {}

local LONGEST_KEY = 128    -- bytes, escapes included: more than six for each letter of the longest name
local LONGEST_NUMBER = 64  -- bytes
local LONGEST_GAP = 40     -- bytes of a stored gap between two texts; Lua interns strings up to this length
local MOST_MARKS = 10000   -- brackets, commas and so on where keys matter: a hundred times the cost of text

local NO_GAP = "\0"         -- occurs in no body that is read
local QUOTE, BRACE, BRACKET, BACKSLASH = ('"{[\\'):byte(1, 4)
local find, byte, sub = string.find, string.byte, string.sub

-- The usual content of a conversation between its texts, up to the quotation mark of the next text. MEMBER is
-- a name. MESSAGE is the end of a message with the first name of the next one. TURN adds a text of letters
-- and one more name, as in most messages. Matching a gap as a whole costs a fraction of finding its marks one
-- by one. (%s has two more characters than JSON allows as space; a body with them is not JSON.)
local MEMBER = '^[%s,]*"[%w_]*"%s*:%s*"'
local MESSAGE = '^%s*}%s*,%s*{%s*"[%w_]*"%s*:%s*"'
local TURN = MESSAGE .. '%a*"%s*,%s*"[%w_]*"%s*:%s*"'

local Scanner = {}
Scanner.__index = Scanner

-- Creates a scanner. limits: choices, the maximum number in a request; items, the maximum length of a list;
-- salt, the maximum bytes of cache_salt. extra: set of fields that the service allows although they are
-- rejected by default; may be nil. models: set of allowed models; nil: any. Every occurrence of the field is
-- checked.
function guard.new(path, limits, extra, models)
    return setmetatable({
        limits = limits,
        top = fields[path] or NONE,
        extra = extra or NONE,
        models = models,
        naming = nil,      -- rule for the string that is being read: model or salted
        items = nil,       -- number of items in the current list, if they are counted
        gap = NO_GAP, other_gap = NO_GAP,  -- the two latest gaps between texts where no key matters
        marks = 0,
        depth = 0,         -- open brackets
        watched = -1,      -- the depth whose keys currently matter
        inside = false,    -- whether those keys belong to chat_template_kwargs
        in_string = false,
        escaped = false,   -- whether the previous piece ended with a backslash
        key = nil,         -- the key that is being read, escapes included
        awaits_key = false,
        name = nil,        -- the key that was read
        rule = nil,        -- rule of that key for the value that is being read
        value = "",        -- that value, unless it is a string, a list or an object
        refusal = nil, values = nil,  -- name of the response to a rejected body, and its values
    }, Scanner)
end

local function unescaped(key)
    return (key:gsub("\\\\", "?"):gsub("\\u(%x%x%x%x)", function(hex)
        local code = tonumber(hex, 16)
        return code < 128 and string.char(code) or "?"
    end))
end

function Scanner:refuse(name, values)
    self.refusal, self.values = name, values or NONE
end

-- Returns the path of the current field, with the field that contains it.
function Scanner:field_path()
    return (self.inside and "chat_template_kwargs." or "") .. self.name
end

function Scanner:refuse_field()
    self:refuse("field_refused", { field = self.name, param = self:field_path() })
end

function Scanner:refuse_model()
    self.name = "model"
    self:refuse("body_model_not_allowed", { param = self:field_path() })
end

function Scanner:refuse_salt()
    self:refuse("cache_salt_invalid", { limit = self.limits.salt, param = self:field_path() })
end

function Scanner:refuse_count()
    self:refuse("too_many_choices", { limit = self.limits.choices, param = self:field_path() })
end

-- Returns the rule for a name, or nil if the name may pass.
function Scanner:rule_of(name)
    if self.inside then
        return not self.extra[name] and INSIDE[name] or nil
    end
    if name == "model" and self.models then
        return "model"
    end
    local rule = self.top[name]
    return not (rule == "refused" and self.extra[name]) and rule or nil
end

-- Handles a value that begins with a bracket or a quotation mark.
function Scanner:begins(char)
    if self.rule == "refused" then
        self:refuse_field()
    elseif self.rule == "counted" and char == '"' then
        self:refuse_count()  -- the engine would parse it as a number anyway
    end
    if (self.rule == "model" or self.rule == "salted") and char == '"' then
        self.naming, self.key = self.rule, ""
    elseif self.rule == "model" then
        self:refuse_model()
    end
    self.items = self.rule == "listed" and char == "[" and 0 or nil
    self.rule = nil
end

-- Handles the end of a value of any other kind. A null counts as an absent field.
function Scanner:ends()
    if self.rule == "model" then
        self:refuse_model()  -- for example null: the engine would choose
    elseif self.rule == "refused" and self.value ~= "null" then
        self:refuse_field()
    elseif self.rule == "counted" then
        local number = tonumber(self.value)
        if self.value == "Infinity" or #self.value > LONGEST_NUMBER or number and number > self.limits.choices then
            self:refuse_count()
        end
    end
    self.rule = nil
end

-- Continues inside a string. Returns the next position.
function Scanner:read_string(text, at)
    local from, size = at, #text
    if self.escaped then
        self.escaped = false
        at = at + 1
    end
    local none = size + 1
    local quote, slash = 0, 0
    repeat
        quote = quote < at and (text:find('"', at, true) or none) or quote
        slash = slash < at and (text:find("\\", at, true) or none) or slash
        if slash < quote then
            self.escaped = slash == size
            at = slash + 2
        end
    until slash >= quote or at > size
    local over = slash >= quote and quote <= size
    if self.key and #self.key <= LONGEST_KEY then
        self.key = self.key .. text:sub(from, math.min(over and quote - 1 or size, from + LONGEST_KEY))
    end
    if not over then
        return none
    end
    self.in_string = false
    if self.key then
        local raw, naming = self.key, self.naming
        local read = unescaped(raw)
        self.key, self.naming = nil, nil
        if not naming then
            self.name = read
        elseif naming == "model" and not self.models[read] then
            self:refuse_model()
        elseif naming == "salted" and (#raw > self.limits.salt or read:find("/", 1, true)) then
            self:refuse_salt()
        end
    end
    return quote + 1
end

-- Continues where keys matter. Returns the next position.
function Scanner:read_members(text, at)
    local found = text:find('["{}%[%],:]', at)
    if self.rule and #self.value <= LONGEST_NUMBER then
        local piece = text:sub(at, found and found - 1):gsub("[ \t\r\n]+", "")
        self.value = self.value .. piece:sub(1, LONGEST_NUMBER + 1)
    end
    if not found then
        return #text + 1
    end
    self.marks = self.marks + 1
    if self.marks > MOST_MARKS then
        self:refuse("too_many_fields")
        return found
    end
    local char = text:sub(found, found)
    if char == '"' then
        self.in_string = true
        if self.awaits_key then
            self.key = ""
            self.awaits_key = false
        else
            self:begins(char)
        end
    elseif char == ":" then
        self.rule = self:rule_of(self.name)
        self.value = ""
    elseif char == "," then
        self:ends()
        self.awaits_key = true
    elseif char == "{" and self.rule == "entered" then
        self.depth, self.watched = 2, 2
        self.inside, self.rule, self.awaits_key = true, nil, true
    elseif char == "{" or char == "[" then
        self:begins(char)
        self.depth = self.depth + 1
    else
        self:ends()
        self.depth = self.depth - 1
        if self.watched == 2 and not self.refusal then
            self.watched, self.inside, self.awaits_key = 1, false, false
        end
    end
    return found + 1
end

-- Counts one more item of a list. Numbers do not count: a list of numbers is one text. Returns whether the
-- limit is exceeded.
function Scanner:one_more()
    self.items = self.items + 1
    if self.items > self.limits.items then
        self:refuse("too_many_items", { field = self.name, limit = self.limits.items, param = self:field_path() })
    end
    return self.refusal ~= nil
end

-- Returns the start of the next text if only a known gap separates it from the end of the previous one, or
-- nil. The position is after the quotation mark that ends the first text. The same gaps repeat, and a
-- comparison costs a fifth of a pattern match.
function Scanner:behind_gap(text, at)
    local gap = self.gap
    if sub(text, at, at + #gap - 1) == gap then
        return at + #gap
    end
    gap = self.other_gap
    if sub(text, at, at + #gap - 1) ~= gap then
        local _, opened = find(text, TURN, at)
        if not opened then
            _, opened = find(text, MEMBER, at)
        end
        if not opened then
            _, opened = find(text, MESSAGE, at)
        end
        if not opened or opened - at >= LONGEST_GAP then
            return opened and opened + 1
        end
        gap = sub(text, at, opened)
    end
    self.gap, self.other_gap = gap, self.gap
    return at + #gap
end

-- Skips names with texts if neither matters. Returns the next position.
function Scanner:skip_texts(text, at)
    local watches = self.depth - 1 == self.watched  -- keys matter after the end of this part
    while true do
        local opens
        if watches then
            local _, opened = find(text, MEMBER, at)
            opens = opened and opened + 1
        else
            opens = self:behind_gap(text, at)
        end
        if not opens then
            return at
        end
        local quote = find(text, '"', opens, true)
        if not quote or byte(text, quote - 1) == BACKSLASH then
            self.in_string = true
            return opens
        end
        at = quote + 1
    end
end

-- Continues where no key matters. Returns the next position.
function Scanner:skip(text, at)
    local depth = self.depth
    repeat
        if not self.items then
            self.depth = depth
            at = self:skip_texts(text, at)
            if self.in_string then
                break
            end
        end
        at = find(text, '["{}%[%]]', at)
        if not at then
            self.depth = depth
            return #text + 1
        end
        local char = byte(text, at)
        at = at + 1
        if self.items and depth == 2 and (char == QUOTE or char == BRACE or char == BRACKET) and self:one_more() then
            break
        end
        if char == QUOTE then
            -- Nothing in the string matters. Most strings end here, at the first unescaped quotation mark.
            local quote = find(text, '"', at, true)
            if quote and byte(text, quote - 1) ~= BACKSLASH then
                at = quote + 1
            else
                self.in_string = true
            end
        elseif char == BRACE or char == BRACKET then
            depth = depth + 1
            if char == BRACE and depth == 1 then
                self.watched, self.awaits_key = 1, true
            end
        else
            depth = depth - 1
        end
    until self.in_string or depth == self.watched
    self.depth = depth
    return at
end

-- Reads the next piece of the body. Returns whether the body is rejected; the response is in refusal and
-- values.
function Scanner:feed(text)
    -- JSON in UTF-8 has no such byte. JSON in UTF-16 and UTF-32, which Python's parser reads as well, always
    -- has.
    if not self.refusal and text:find("\0", 1, true) then
        self:refuse("body_not_utf8")
    end
    local at = 1
    while at <= #text and not self.refusal do
        if self.in_string then
            at = self:read_string(text, at)
        elseif self.depth == self.watched then
            at = self:read_members(text, at)
        else
            at = self:skip(text, at)
        end
    end
    return self.refusal ~= nil
end

return guard
