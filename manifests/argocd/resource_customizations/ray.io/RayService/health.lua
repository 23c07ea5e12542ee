-- Health of a KubeRay RayService (1.6 and newer): conditions, and Serve applications, which conditions omit.
local function health(status, message)
  return { status = status, message = message }
end

if obj.metadata.deletionTimestamp ~= nil then
  return health("Progressing", "Being deleted")
end
if obj.status == nil then
  return health("Progressing", "Waiting for KubeRay to see it")
end

local conditions = {}
for _, condition in ipairs(obj.status.conditions or {}) do
  conditions[condition.type] = condition
end
local function is(kind, status)
  return conditions[kind] ~= nil and conditions[kind].status == status
end

-- Before the generation check: KubeRay does not update observedGeneration if it rejects a spec.
local ready = conditions.Ready
if ready ~= nil and (ready.reason == "ValidationFailed" or ready.reason == "InitializingTimeout") then
  return health("Degraded", ready.message)
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  return health("Progressing", "Waiting for KubeRay to see the latest change")
end
if is("Suspended", "True") then
  return health("Suspended", conditions.Suspended.message)
end

-- Ready counts only endpoints: an application of the active or pending cluster may have failed behind them.
local function failure(cluster)
  local names = {}
  for name, _ in pairs((cluster or {}).applicationStatuses or {}) do
    table.insert(names, name)
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local application = cluster.applicationStatuses[name]
    if application.status == "DEPLOY_FAILED" or application.status == "UNHEALTHY" then
      local message = "Serve application " .. name .. " is " .. application.status
      if application.message ~= nil and application.message ~= "" then
        message = message .. ": " .. application.message
      end
      return message
    end
  end
  return nil
end
local failed = failure(obj.status.activeServiceStatus) or failure(obj.status.pendingServiceStatus)
if failed ~= nil then
  return health("Degraded", failed)
end

if is("RollbackInProgress", "True") then
  return health("Progressing", conditions.RollbackInProgress.message)
end
if is("UpgradeInProgress", "True") then
  return health("Progressing", conditions.UpgradeInProgress.message)
end
if is("Ready", "True") then
  return health("Healthy", ready.message)
end
if ready ~= nil then
  return health("Progressing", ready.message)
end
return health("Progressing", "Waiting for the condition Ready")
