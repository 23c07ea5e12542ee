-- Memory of large bodies and their responses, in bytes: one budget, with a share for each client.
--
-- Received bytes are counted, not announced ones. A body stays here until its response begins. HAProxy reads
-- a response as fast as it comes, whether its client reads it or not. Therefore a response counts from its
-- head on, with as much of it as the buffer can hold. If its length is unknown, the part that its client has
-- not read yet counts.

local answers = require("answers")
local model = require("model")
local pause = require("pause")
local percent = require("percent")
local rename = require("rename")
local tally = require("tally")

local MAX_BODY = tonumber(os.getenv("DAYBREAK_MAX_BODY"))  -- bytes of one body
local BUDGET = tonumber(os.getenv("DAYBREAK_BUDGET"))      -- maximum bytes at the same time
local SHARE = tonumber(os.getenv("DAYBREAK_SHARE"))        -- bytes of it for one client
local BODY_TIMEOUT = tonumber(os.getenv("DAYBREAK_BODY_TIMEOUT"))  -- seconds
local LOOK = 50       -- ms between two checks of the received bytes
local BUFFER = tonumber(os.getenv("DAYBREAK_BUFFER"))  -- bytes
local ANSWER = 65536  -- bytes of a response that are not counted: those of a client that keeps up

local COUNTED = "txn.daybreak_bytes"
local BEGAN = "txn.daybreak_began"
local SOURCE = "txn.daybreak_source"

local bytes = 0     -- current bytes
local sources = {}  -- client -> its bytes

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

-- Returns whether a client's bytes, with additional ones, exceed the budget.
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

-- Waits for the body, and counts the received bytes; a chunked body until the last chunk.
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
        -- Reject now instead of after half of the body.
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

-- Handles a body that is here, as far as the budget allows.
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

-- Finds the model of a request that has already come to a service's own address; that service checks the
-- name.
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
