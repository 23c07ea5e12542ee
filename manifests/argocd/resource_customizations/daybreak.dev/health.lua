-- Health of Daybreak's kinds, from their kstatus conditions. A sleeping object is Healthy, because it still
-- answers requests. An object is Suspended if a person keeps it asleep, has suspended it, or has paused its
-- rollouts. A rolled-back change, a rolled-back canary and a failed job are Degraded.
local function health(status, message)
  return { status = status, message = message }
end

if obj.metadata.deletionTimestamp ~= nil then
  return health("Progressing", "Being deleted")
end
if obj.status == nil or obj.status.conditions == nil then
  return health("Progressing", "Waiting for the Daybreak operator to see it")
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  return health("Progressing", "Waiting for the Daybreak operator to see the latest change")
end

local conditions = {}
for _, condition in ipairs(obj.status.conditions) do
  conditions[condition.type] = condition
end
local function is(kind, status)
  return conditions[kind] ~= nil and conditions[kind].status == status
end

if is("Stalled", "True") then
  return health("Degraded", conditions.Stalled.message)
end
if is("Complete", "True") then
  return health("Healthy", conditions.Complete.message)
end
if obj.status.phase == "Suspended" then
  return health("Suspended", conditions.Complete.message)
end
if is("Reconciling", "True") and conditions.Reconciling.reason == "Paused" then
  return health("Suspended", conditions.Reconciling.message)
end
if is("Reconciling", "True") then
  return health("Progressing", conditions.Reconciling.message)
end
if obj.status.phase == "Asleep" and is("Ready", "False") then
  return health("Suspended", conditions.Ready.message)
end
if is("Ready", "True") then
  if is("Active", "False") then
    return health("Healthy", conditions.Active.message)
  end
  return health("Healthy", conditions.Ready.message)
end
if conditions.Ready ~= nil then
  return health("Progressing", conditions.Ready.message)
end
return health("Progressing", "Waiting for the condition Ready")
