-- Models outside of the cluster, for what no backend of a route has taken.
--
-- They are somebody else's: of a request goes there what is asked, and nothing that says who asks, or with which key.

local percent = require("percent")

local external = {}

local SERVER = "txn.daybreak_external"  -- the server of the backend of that name: it says whose certificates are believed
local ADDRESS = "txn.daybreak_external_address"
local PORT = "txn.daybreak_external_port"
local HOST = "txn.daybreak_external_host"
local ROUTE = "txn.daybreak_external_route"
local LEFT = "txn.daybreak_left"        -- set: nothing of the client's own is in the head any more

local OWN_PATH = "/v1"  -- instead of which the path of the base URL comes
local GOES_ALONG = { ["content-type"] = true, ["content-length"] = true, ["transfer-encoding"] = true, accept = true }

local hosts = {}  -- name of a route's object → where its external model is

-- All of them anew: <route>:<server>:<address>:<port>:<host>:<path>:<key>,... percent-encoded. No key: none is sent.
function external.set(text)
    local fresh = {}
    for id, server, address, port, host, path, key in text:gmatch("([^,:]+)" .. (":([^,:]*)"):rep(6)) do
        fresh[id] = {
            server = server,
            address = percent.decoded(address),
            port = math.tointeger(tonumber(port)),
            host = percent.decoded(host),
            path = percent.decoded(path),
            key = key ~= "" and percent.decoded(key) or nil,
        }
    end
    hosts = fresh
end

-- Whether a route has one that can be asked.
function external.is_there(id)
    return hosts[id] ~= nil
end

-- Says to HAProxy where a request goes.
function external.choose(txn, id)
    local to = hosts[id]
    txn:set_var(SERVER, to.server)
    txn:set_var(ADDRESS, to.address)
    txn:set_var(PORT, to.port)
    txn:set_var(HOST, to.host)
    txn:set_var(ROUTE, id)
end

-- Makes the head what may leave the cluster.
local function leave(txn)
    local to = hosts[txn:get_var(ROUTE)]
    for name in pairs(txn.http:req_get_headers()) do
        if not GOES_ALONG[name] then
            txn.http:req_del_header(name)
        end
    end
    txn.http:req_set_uri(to.path .. txn.sf:path():sub(#OWN_PATH + 1))
    txn.http:req_set_header("host", to.port == 443 and to.host or to.host .. ":" .. to.port)
    txn.http:req_set_header("user-agent", "daybreak-gateway")
    if to.key then
        txn.http:req_set_header("authorization", "Bearer " .. to.key)
    end
    txn:set_var(LEFT, true)
end

core.register_action("leave", { "http-req" }, leave)

return external
