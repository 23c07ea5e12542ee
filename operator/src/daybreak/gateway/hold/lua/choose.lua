-- Chooses a replica if the service wants another policy than the least busy one: `models[].routing`.
--
-- HAProxy's own "balance hash" cannot distinguish a full replica from others, and has no least-requests
-- fallback for requests without a session; "hash-key" is of a later version. Therefore leastconn stays, and a
-- rule "use-server" takes the choice made here. Requests without a choice, or whose chosen replica has gone,
-- use leastconn.
--
-- The choice is by rendezvous hashing: each replica has a score for each key, and the highest wins. The
-- scores depend on the replicas' addresses only, so every gateway makes the same choice. A replica that is
-- added or removed moves only the keys that it wins.

local slots = require("slots")

local SERVER = "txn.daybreak_server"
local BEGINNING = 1024     -- bytes of a message or prompt that count
local BUSIER = 1.25        -- times the mean load: beyond it a session moves to another replica
local NEVER_BUSY = 8       -- requests: below it a session stays whatever the mean is

local up = {}     -- name of a backend -> its replicas that are up, in the order of their names
local turns = {}  -- name of a backend -> number of turns so far

-- Returns the replicas of a backend that are up. The cache is refreshed after an event of one of them.
local function replicas_up(txn, name)
    local found = up[name]
    if not found then
        found = {}
        for server_name, server in pairs(core.backends[name].servers) do
            if not server:is_backup() and server:get_stats().status:find("^UP") then
                found[#found + 1] = { name = server_name, server = server, seed = txn.c:xxh64(server_name) }
            end
        end
        table.sort(found, function(one, other) return one.name < other.name end)
        up[name] = found
    end
    return found
end

-- Returns the number of requests that a replica has from this gateway, queued ones included.
local function load_of(replica)
    return (replica.server:get_cur_sess() or 0) + (replica.server:get_pend_conn() or 0)
end

local function full(choice, replica)
    return choice.most > 0 and load_of(replica) >= choice.most
end

-- Returns the replicas in the order of a key's scores.
local function wanted(key, replicas)
    local order = {}
    for at, replica in ipairs(replicas) do
        local bits = key ~ replica.seed
        bits = (bits ~ (bits >> 30)) * 0xbf58476d1ce4e5b9
        bits = (bits ~ (bits >> 27)) * 0x94d049bb133111eb
        order[at] = { replica = replica, score = (bits ~ (bits >> 31)) >> 1 }
    end
    table.sort(order, function(one, other) return one.score > other.score end)
    return order
end

local policies = {}

-- Chooses the session's own replica or, if it is overloaded, one of the next (choice.spare of them). If none
-- qualifies, the least busy one is used.
function policies.session(txn, choice, replicas)
    local session = txn.sf:req_hdr("x-session-id")
    if session == "" then
        return nil
    end
    local order = wanted(txn.c:xxh64(session), replicas)
    if choice.spare == 0 then
        return order[1].replica
    end
    local total = 1
    for _, replica in ipairs(replicas) do
        total = total + load_of(replica)
    end
    local busy = math.max(NEVER_BUSY, math.ceil(BUSIER * total / #replicas))
    for at = 1, math.min(#order, 1 + choice.spare) do
        local replica = order[at].replica
        if load_of(replica) < busy and not full(choice, replica) then
            return replica
        end
    end
end

local LISTS = { ["/v1/chat/completions"] = "messages", ["/v1/messages"] = "messages", ["/v1/responses"] = "input" }
local RULES = { system = true, developer = true }  -- roles of messages that many conversations share

-- Returns the beginning of a prompt: the system prompt and the first other message, which all turns of a
-- conversation share, or the first bytes of a plain prompt. nil: the request has none.
local function beginning(txn)
    local path, text = txn.sf:path(), txn.sf:req_body()
    local list = LISTS[path]
    local field = list or path == "/v1/completions" and "prompt"
    if not field then
        return nil
    end
    local function asked(query)
        local found = txn.c:json_query(text, query)
        return found ~= nil and found ~= "" and tostring(found):sub(1, BEGINNING) or nil
    end
    local parts = {}
    if list then
        parts[1] = asked("$.system") or asked("$.instructions")
        local first = "$." .. list .. "[0]"
        parts[#parts + 1] = asked(first .. ".content")
        if RULES[asked(first .. ".role")] then
            parts[#parts + 1] = asked("$." .. list .. "[1].content")
        end
    end
    if #parts == 0 then
        parts[1] = asked("$." .. field)
    end
    if #parts == 0 then
        -- No JSON query can read it, because the message is longer than the received part of the body.
        local at = text:find('"' .. field .. '"', 1, true)
        parts[1] = at and text:sub(at, at + BEGINNING)
    end
    return #parts > 0 and table.concat(parts, "\0") or nil
end

-- Chooses the replica of the prompt's beginning, unless it is full or its load exceeds that of the least busy
-- one by more than choice.spare.
function policies.prefix(txn, choice, replicas)
    local text = beginning(txn)
    if not text then
        return nil
    end
    local own = wanted(txn.c:xxh64(text), replicas)[1].replica
    local least = math.huge
    for _, replica in ipairs(replicas) do
        least = math.min(least, load_of(replica))
    end
    return load_of(own) - least <= choice.spare and not full(choice, own) and own or nil
end

-- Chooses each replica in turn and skips full ones.
function policies.turns(_, choice, replicas, name)
    for _ = 1, #replicas do
        turns[name] = (turns[name] or 0) + 1
        local replica = replicas[turns[name] % #replicas + 1]
        if not full(choice, replica) then
            return replica
        end
    end
end

local function choose(txn)
    debug.sethook()  -- as in hold.lua
    local name = txn.sf:be_name()
    local slot = slots.all[name]
    local choice = slot and slot.choice
    local replicas = choice and replicas_up(txn, name)
    if not replicas or #replicas == 0 then
        return
    end
    local replica = policies[choice.policy](txn, choice, replicas, name)
    if replica then
        txn:set_var(SERVER, replica.name)
    end
end

core.register_action("choose", { "http-req" }, choose)

core.event_sub({ "SERVER_ADD", "SERVER_DEL", "SERVER_UP", "SERVER_DOWN" }, function(_, data)
    up[data.proxy_name] = nil
end)
