-- Models outside the cluster, for requests that no backend of a route accepted.
--
-- They belong to a third party, so a request sends its body there, and nothing that identifies the client or
-- its key.

local percent = require("percent")

local external = {}

local SERVER = "txn.daybreak_external"  -- the server in the backend of that name, with its trusted certificates
local ADDRESS = "txn.daybreak_external_address"
local PORT = "txn.daybreak_external_port"
local HOST = "txn.daybreak_external_host"
local ROUTE = "txn.daybreak_external_route"
local LEFT = "txn.daybreak_left"        -- set: the head has no more client data

local OWN_PATH = "/v1"  -- replaced by the path of the base URL
local GOES_ALONG = { ["content-type"] = true, ["content-length"] = true, ["transfer-encoding"] = true, accept = true }

local hosts = {}  -- name of a route's object → address of its external model

-- Replaces all external models: <route>:<server>:<address>:<port>:<host>:<path>:<key>,... percent-encoded. No
-- key: none is sent.
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

-- Returns whether a route has an available external model.
function external.is_there(id)
    return hosts[id] ~= nil
end

-- Sets the destination of a request in HAProxy.
function external.choose(txn, id)
    local to = hosts[id]
    txn:set_var(SERVER, to.server)
    txn:set_var(ADDRESS, to.address)
    txn:set_var(PORT, to.port)
    txn:set_var(HOST, to.host)
    txn:set_var(ROUTE, id)
end

-- Reduces the head to the headers that may leave the cluster.
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
