-- Lets an action of HAProxy wait: it is called anew after so many ms. waits: whether it has waited here before.
--
-- act.YIELD is returned once. HAProxy never takes what was returned from the stack of the request's coroutine, which
-- otherwise grew with each look until Lua had no memory left (some thousand looks a second, with ten services that wake);
-- and where nothing is returned it takes what was returned last. So it is nothing then, not nil: `return pause(ms, waits)`.
-- And an action that has waited says at its end how it goes on (act.CONTINUE), or it waits for ever.

return function(ms, waits)
    act.wake_time(ms)
    if not waits then
        return act.YIELD
    end
end
