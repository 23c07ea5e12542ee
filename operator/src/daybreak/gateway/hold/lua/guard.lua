-- The fields of a request's body, one by one: which are refused at its path (gateway/fields), how many choices and items it
-- asks for. What is not in that list passes: engines ignore what they do not know. vLLM has had advisories for templates and processors of the client's own, which run code or burn time on the engine's
-- machine; n and lists multiply the work.
--
-- A body is read piece by piece and never kept: the scanner remembers where in the JSON it is, and nothing else. It
-- judges every occurrence of a key, also where a later one would win. What is no JSON it lets pass: the model refuses
-- that itself.

local fields = require("fields")

local guard = {}

local INSIDE = { chat_template = "refused" }
local NONE = {}

local LONGEST_KEY = 128    -- bytes, escapes included: six for each letter of the longest name are fewer
local LONGEST_NUMBER = 64  -- bytes
local LONGEST_GAP = 40     -- bytes of what is remembered between two texts; Lua keeps one copy of each text so short
local MOST_MARKS = 10000   -- brackets, commas and so on where keys matter: they cost a hundred times what text costs

local NO_GAP = "\0"         -- in no body that is read
local QUOTE, BRACE, BRACKET, BACKSLASH = ('"{[\\'):byte(1, 4)
local find, byte, sub = string.find, string.byte, string.sub

-- What most of a conversation is beside its texts, each up to the quotation mark of a text: a name; the end of one message
-- with the first name of the next; and that with a text of letters and one more name, as most messages are. To find them at
-- once costs a fraction of finding their marks one by one. (%s has two more characters than JSON has for space: what has
-- them is no JSON.)
local MEMBER = '^[%s,]*"[%w_]*"%s*:%s*"'
local MESSAGE = '^%s*}%s*,%s*{%s*"[%w_]*"%s*:%s*"'
local TURN = MESSAGE .. '%a*"%s*,%s*"[%w_]*"%s*:%s*"'

local Scanner = {}
Scanner.__index = Scanner

-- limits: choices, the largest number of them that a request may ask for; items, the longest list; salt, the longest
-- cache_salt in bytes. extra: a set of refused fields that the service lets pass; may be nil.
-- models: a set of those that may be asked for; nil: any. Every occurrence of the field is held to it.
function guard.new(path, limits, extra, models)
    return setmetatable({
        limits = limits,
        top = fields[path] or NONE,
        extra = extra or NONE,
        models = models,
        naming = nil,      -- the rule by which the string that is read is judged: model or salted
        items = nil,       -- of the list that is being read, if they are counted
        gap = NO_GAP, other_gap = NO_GAP,  -- what stood between texts where no key matters, the latest two
        marks = 0,
        depth = 0,         -- open brackets
        watched = -1,      -- the depth whose keys matter just now
        inside = false,    -- whether they are those of chat_template_kwargs
        in_string = false,
        escaped = false,   -- the text before ended with a backslash
        key = nil,         -- the key that is being read, escapes and all
        awaits_key = false,
        name = nil,        -- the key that was read
        rule = nil,        -- what it means for the value that is being read
        value = "",        -- that value, unless it is a string, a list or an object
        refusal = nil, values = nil,  -- the response to a body that is refused: its name, and values of its placeholders
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

-- The field that was read, with the field that it is in.
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

-- What a name means; nil: nothing, and it passes.
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

-- A value begins with a bracket or a quotation mark.
function Scanner:begins(char)
    if self.rule == "refused" then
        self:refuse_field()
    elseif self.rule == "counted" and char == '"' then
        self:refuse_count()  -- it would be read as a number all the same
    end
    if (self.rule == "model" or self.rule == "salted") and char == '"' then
        self.naming, self.key = self.rule, ""
    elseif self.rule == "model" then
        self:refuse_model()
    end
    self.items = self.rule == "listed" and char == "[" and 0 or nil
    self.rule = nil
end

-- A value of another kind has ended. To say null is to say nothing.
function Scanner:ends()
    if self.rule == "model" then
        self:refuse_model()  -- null, as an example: the engine would choose
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

-- Read on inside a string. Returns where to go on.
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

-- Read on where keys matter. Returns where to go on.
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

-- One more item of a list. Numbers are none: a list of them is one text. Returns whether it is one too many.
function Scanner:one_more()
    self.items = self.items + 1
    if self.items > self.limits.items then
        self:refuse("too_many_items", { field = self.name, limit = self.limits.items, param = self:field_path() })
    end
    return self.refusal ~= nil
end

-- What stands between two texts, from behind the quotation mark that ends the first to the one that begins the second: where
-- the second begins; nil if it is something else. The same gaps come again and again, and to compare costs a fifth of a
-- pattern.
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

-- Read on over names with texts, where neither matters. Returns where to go on.
function Scanner:skip_texts(text, at)
    local watches = self.depth - 1 == self.watched  -- keys matter behind the end of what is read
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

-- Read on where no key matters. Returns where to go on.
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
            -- Nothing in the string matters. Most end here, with the first quotation mark that nothing escapes.
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

-- Read the next piece of the body. Returns whether the body is refused; the response is in refusal and values.
function Scanner:feed(text)
    -- JSON in UTF-8 has no such byte; in UTF-16 and UTF-32, which Python's parser reads as well, it always has.
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
