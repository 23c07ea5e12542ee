"""Concurrent steps of a pipeline: timeouts, and the result of each."""

import asyncio
from collections.abc import Awaitable, Collection, Iterator, Mapping
from typing import Any

from daybreak_runtime.v2.problem import Problem


class Joined(Mapping[str, Any]):
    """Results of concurrent steps, by name.

    A failed step is not in it: `"summary" in joined` is false, `joined.get("summary")` is None, and
    `joined["summary"]` raises the Problem that the client receives.

    Attributes:
        errors: Errors of failed steps and timeouts, by name.
    """

    def __init__(self, values: Mapping[str, Any], errors: Mapping[str, Exception]) -> None:
        self._values = dict(values)
        self.errors = dict(errors)

    def __getitem__(self, name: str) -> Any:
        if name in self.errors:
            raise failed(name, self.errors[name])
        return self._values[name]

    # Mapping's own two methods call __getitem__, which raises other errors than KeyError.
    def __contains__(self, name: object) -> bool:
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        """Return the result of a step, or `default` if it failed."""
        return self._values.get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


async def together(
    steps: Mapping[str, Awaitable[Any]],
    *,
    within: float | Mapping[str, float] | None = None,
    needed: Collection[str] | None = None,
) -> Joined:
    """Run steps concurrently, and return their results.

    Args:
        steps: Steps by name.
        within: Seconds for all, or for each by name; None for no limit.
        needed: Names of required steps; None for all. The others may fail: `Joined.errors`.

    Returns:
        Results in the order of `steps`.

    Raises:
        Problem: A required step failed (its own status, or 502) or took too long (504). The others are
            canceled then.
        ValueError: `needed` or `within` names a step that does not exist.
    """
    must = set(steps if needed is None else needed)
    limits = within if isinstance(within, Mapping) else dict.fromkeys(steps, within)
    unknown = (must | set(limits)) - set(steps)
    tasks = {name: asyncio.ensure_future(step) for name, step in steps.items()}
    errors: dict[str, Exception] = {}
    try:
        if unknown:
            raise ValueError(f"there is no step {', '.join(sorted(unknown))}")
        names = {asyncio.ensure_future(_within(task, limits.get(name))): name for name, task in tasks.items()}
        waiting = set(names)
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if isinstance(error, Exception):
                    errors[names[task]] = error
                    if names[task] in must:
                        raise failed(names[task], error)
                elif error is not None:
                    raise error
    finally:
        for each in tasks.values():
            each.cancel()
        # To avoid warnings about errors that were never retrieved.
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    return Joined({name: task.result() for name, task in tasks.items() if name not in errors}, errors)


def failed(name: str, error: Exception) -> Problem:
    """Return the Problem of a failed step for the client."""
    if isinstance(error, TimeoutError):
        return Problem(f"{name} took too long", 504)
    if isinstance(error, Problem):
        return Problem(f"{name}: {error.message.removeprefix(f'{name}: ')}", error.status)
    return Problem(f"{name}: {type(error).__name__}: {error}"[:500], 502)


async def _within(task: "asyncio.Future[Any]", seconds: float | None) -> Any:
    async with asyncio.timeout(seconds):
        return await task
