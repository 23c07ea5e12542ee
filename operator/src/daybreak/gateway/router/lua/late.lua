-- What is kept of large bodies and their answers, in bytes: within one budget, and within a share of it for each client.
--
-- What has come is counted, not what a client says that it will send. A body is here until its answer begins. HAProxy
-- reads an answer as fast as it comes, whether its client takes it or not, so an answer counts from its head on with all
-- that the buffer can take of it; one whose length nobody knows, with what its client has not taken yet.

local answers = require("answers")
local model = require("model")
local pause = require("pause")
local percent = require("percent")
local rename = require("rename")
local tally = require("tally")

local MAX_BODY = tonumber(os.getenv("DAYBREAK_MAX_BODY"))  -- bytes of one body
local BUDGET = tonumber(os.getenv("DAYBREAK_BUDGET"))      -- bytes that may be here at a time
local SHARE = tonumber(os.getenv("DAYBREAK_SHARE"))        -- bytes of it for one client
local BODY_TIMEOUT = tonumber(os.getenv("DAYBREAK_BODY_TIMEOUT"))  -- seconds
local LOOK = 50       -- ms between two looks at what has come
local BUFFER = tonumber(os.getenv("DAYBREAK_BUFFER"))  -- bytes
local ANSWER = 65536  -- bytes of an answer that are not counted: those of a client that keeps up

local COUNTED = "txn.daybreak_bytes"
local BEGAN = "txn.daybreak_began"
local SOURCE = "txn.daybreak_source"

local bytes = 0     -- that are here
local sources = {}  -- client -> bytes of his

local function count(txn, size)
    local before = txn:get_var(COUNTED) or 0
    if size == before then
        return
    end
    local source = txn:get_var(SOURCE) or ""
    local his = (sources[source] or 0) + size - before
    sources[source] = his > 0 and his or nil
    bytes = bytes + size - before
    if size > 0 then
        txn:set_var(COUNTED, size)
    else
        txn:unset_var(COUNTED)
    end
end

-- Whether there is no room for what a client has here, and so much more.
local function full(txn, more)
    return bytes + more > BUDGET or (sources[txn:get_var(SOURCE) or ""] or 0) + more > SHARE
end

local function refuse(txn, name, values)
    count(txn, 0)
    answers.respond(txn, name, values)
end

local function too_large(txn)
    refuse(txn, "body_too_large_to_search", { limit = MAX_BODY })
end

local function no_room(txn)
    refuse(txn, "queue_full_large_requests")
end

-- Waits for the body, and counts what has come of it: of one in chunks, until the last of them is here.
local function gather(txn)
    local now = core.now()
    local ms = now.sec * 1000 + now.usec // 1000
    local began = txn:get_var(BEGAN)
    local waits = began ~= nil
    local length = tonumber(txn.sf:req_hdr("content-length"))
    local here = tonumber(txn.sf:req_body_len()) or 0
    if (length or here) > MAX_BODY or here > MAX_BODY then
        too_large(txn)
    end
    if not began then
        began = ms
        txn:set_var(BEGAN, ms)
        -- Sooner told now than when half of it has come.
        if full(txn, length or here) then
            no_room(txn)
        end
    end
    count(txn, here)
    if full(txn, 0) then
        no_room(txn)
    end
    if length and here >= length or not length and txn.sf:internal_htx_has_eom() == "1" then
        return act.CONTINUE
    end
    if ms - began > BODY_TIMEOUT * 1000 then
        refuse(txn, "request_timeout")
    end
    return pause(LOOK, waits)
end

-- The body is here, as far as there is room for it.
local function arrived(txn)
    local here = tonumber(txn.sf:req_body_len()) or 0
    if here > MAX_BODY then
        too_large(txn)
    end
    count(txn, here)
    if full(txn, 0) then
        no_room(txn)
    end
    txn:set_var("txn.daybreak_arrived", true)
end

-- Finds the model of a request that has come to the service's own address already: what it names is for that to judge.
local function find(txn)
    local name = model.named(txn.sf:path(), txn.sf:req_body(), txn)
    if name then
        txn:set_var("txn.daybreak_found", percent.encoded(name))
    end
end

local Kept = { id = "Kept", flags = filter.FLT_CFG_FL_HTX }
Kept.__index = Kept

function Kept:new()
    return setmetatable({}, Kept)
end

function Kept:http_headers(txn, message)
    if not message.channel:is_resp() then
        return rename.head(self, txn, message)
    end
    tally.head(txn)
    local length = tonumber(txn.sf:res_hdr("content-length"))
    count(txn, length and length > ANSWER and math.min(length, BUFFER) or 0)
    if full(txn, 0) then
        refuse(txn, "queue_full_large_answers")
    end
    if not length then
        filter.register_data_filter(self, message.channel)
    end
end

function Kept:http_payload(txn, message)
    if not message.channel:is_resp() then
        return rename.body(self, txn, message)
    end
    if self.cut then
        return
    end
    if not self.began and message:input() > 0 then
        self.began = true
        tally.first(txn)
    end
    local waiting = message:output() + message:input()
    count(txn, waiting > ANSWER and waiting or 0)
    if full(txn, 0) then
        self.cut = true
        txn:done()
    end
end

function Kept:end_analyze(txn, channel)
    count(txn, 0)
    if channel:is_resp() then
        tally.ended(txn)
    end
end

local function show(applet)
    local each = {}
    for source, his in pairs(sources) do
        each[#each + 1] = answers.quoted(source) .. ":" .. his
    end
    applet:send(string.format('{"bytes":%d,"sources":{%s},"lua_kib":%d}\n', bytes, table.concat(each, ","),
        collectgarbage("count") // 1))
end

core.register_action("gather", { "http-req" }, gather)
core.register_action("arrived", { "http-req" }, arrived)
core.register_action("find", { "http-req" }, find)
core.register_filter("kept", Kept, function(found) return found end)
core.register_cli({ "late", "show" }, "late show : bytes that are kept, of all and of each client, as JSON", show)
