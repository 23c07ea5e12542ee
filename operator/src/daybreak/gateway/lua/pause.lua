-- Makes an action of HAProxy wait: HAProxy calls it again after `ms`. waits: whether it has already waited
-- here.
--
-- act.YIELD is returned only once. HAProxy never removes returned values from the stack of the request's
-- coroutine. The stack would otherwise grow with each check until Lua had no memory left (some thousand
-- checks a second, with ten waking services). If nothing is returned, HAProxy uses the previous value.
-- Therefore a later call returns nothing, not nil: `return pause(ms, waits)`. An action that has waited must
-- return how it continues (act.CONTINUE), or it waits forever.

return function(ms, waits)
    act.wake_time(ms)
    if not waits then
        return act.YIELD
    end
end
