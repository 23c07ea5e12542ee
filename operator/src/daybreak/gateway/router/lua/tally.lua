-- Counts of the backends of routes: requests, responses, errors and response times.
--
-- Counting begins at the time in a route's status, so that all gateways count the same. A request that was
-- sent before is not counted, whenever it ends. Response times are kept in buckets (protocol/tallies.py has
-- the same ones). They include 2xx responses of requests that did not wait for a wake: the duration of a
-- sleep is no property of the model.

local FIRST_MS, PER_DOUBLING, LAST = 10, 4, 73

local COUNTED = "txn.daybreak_counted"   -- since, route and way of a request
local SENT_AT = "txn.daybreak_sent_at"   -- ms
local FIRST_AT = "txn.daybreak_first_at" -- ms from then to the first byte of the response body
local STATUS = "txn.daybreak_status"     -- of the response, also of HAProxy's own
local WAITED = "txn.daybreak_waited"     -- set: it was held
local PASSED_ON = "txn.daybreak_passed_on"  -- set: another backend has answered it

local tally = {}

local tallies = {}  -- name of a route's object → since, and way → its counts

local function now_ms()
    local now = core.now()
    return now.sec * 1000 + now.usec // 1000
end

local function bucket(ms)
    if ms <= FIRST_MS then
        return 0
    end
    return math.min(LAST, math.ceil(PER_DOUBLING * math.log(ms / FIRST_MS, 2)))
end

local function observe(times, ms)
    local at = bucket(ms)
    times[at] = (times[at] or 0) + 1
end

-- Sets the routes and the start of each count: since by name. Routes with a new start restart at 0.
function tally.set(since)
    local fresh = {}
    for id, at in pairs(since) do
        local before = tallies[id]
        fresh[id] = before and before.since == at and before or { since = at, ways = {} }
    end
    tallies = fresh
end

local function of_way(of, way)
    local got = of.ways[way]
    if not got then
        got = { sent = 0, answered = 0, errors = 0, passed_on = 0, first = {}, whole = {} }
        of.ways[way] = got
    end
    return got
end

-- Returns the start of a route's counts.
function tally.since(id)
    return tallies[id].since
end

-- Counts a request that was not accepted by a way and goes to another one. since: start of the counts when it
-- was sent.
function tally.passed_on(since, id, way)
    local of = tallies[id]
    if of and of.since == since then
        local got = of_way(of, way)
        got.passed_on = got.passed_on + 1
    end
end

-- Counts a sent copy of a request. Its response is discarded and not counted.
function tally.copied(id, way)
    local got = of_way(tallies[id], way)
    got.sent = got.sent + 1
end

-- Counts a sent request.
function tally.sent(txn, id, way)
    local of = tallies[id]
    local got = of_way(of, way)
    got.sent = got.sent + 1
    txn:set_var(COUNTED, of.since .. " " .. id .. " " .. way)
    txn:set_var(SENT_AT, now_ms())
end

-- Handles the head of a response. Returns whether its body is needed because its first byte is still to come.
function tally.head(txn)
    if not txn:get_var(COUNTED) then
        return false
    end
    if txn.sf:res_hdr("content-length") ~= "" then
        tally.first(txn)  -- the body is nearly complete by now
        return false
    end
    return true
end

-- Handles the first byte of a response body.
function tally.first(txn)
    if txn:get_var(COUNTED) and not txn:get_var(FIRST_AT) then
        txn:set_var(FIRST_AT, now_ms() - txn:get_var(SENT_AT))
    end
end

-- Counts the end of a request: with a response, or without one if its client has left.
function tally.ended(txn)
    local counted, status = txn:get_var(COUNTED), txn:get_var(STATUS)
    if not counted then
        return
    end
    txn:unset_var(COUNTED)
    local since, id, way = counted:match("^(%S*) (%S+) (%S+)$")
    local of = tallies[id]
    local got = of and of.since == since and of.ways[way]
    if not got or not status or txn:get_var(PASSED_ON) then
        return
    end
    got.answered = got.answered + 1
    if status >= 500 then
        got.errors = got.errors + 1
    elseif status < 300 and not txn:get_var(WAITED) then
        local took = now_ms() - txn:get_var(SENT_AT)
        observe(got.first, txn:get_var(FIRST_AT) or took)
        observe(got.whole, took)
    end
end

local function times(counts)
    local each = {}
    for at, count in pairs(counts) do
        each[#each + 1] = string.format('"%d":%d', at, count)
    end
    return "{" .. table.concat(each, ",") .. "}"
end

-- Returns all counts as JSON, by the route's object and the way, percent-encoded as they were received.
function tally.json()
    local routes = {}
    for id, of in pairs(tallies) do
        local ways = {}
        for way, got in pairs(of.ways) do
            ways[#ways + 1] = string.format('"%s":[%d,%d,%d,%s,%s,%d]', way, got.sent, got.answered, got.errors,
                times(got.first), times(got.whole), got.passed_on)
        end
        routes[#routes + 1] = string.format('"%s":{"since":"%s","ways":{%s}}', id, of.since, table.concat(ways, ","))
    end
    return "{" .. table.concat(routes, ",") .. "}"
end

return tally
