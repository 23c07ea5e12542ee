"""Concurrent steps of a pipeline: joined results, failures, and the client's view of them."""

import asyncio

import pytest

from daybreak_runtime.pipelines import Joined, together
from daybreak_runtime.v2.problem import BadInput, Problem


async def gives(value: object) -> object:
    return value


async def takes_for_ever() -> None:
    await asyncio.Event().wait()


async def raises(error: Exception) -> None:
    raise error


async def optional(failing: Exception | None) -> Joined:
    """A pipeline whose `summary` may fail, or take too long when there is no error."""
    step = takes_for_ever() if failing is None else raises(failing)
    return await together(
        {"sentiment": gives("good"), "summary": step}, within={"summary": 0.01}, needed=["sentiment"]
    )


async def test_results_are_joined_in_order_of_steps() -> None:
    joined = await together({"b": gives(1), "a": gives(2)})
    assert list(joined.items()) == [("b", 1), ("a", 2)]
    assert joined.get("a") == 2
    assert not joined.errors


@pytest.mark.parametrize(
    ("failing", "status", "words"),
    [
        (None, 504, "summary took too long"),
        (OSError("no weights"), 502, "summary: OSError: no weights"),
        (BadInput("too long a text"), 400, "summary: too long a text"),
        (Problem("summary: asleep", 503), 503, "summary: asleep"),
    ],
)
async def test_failed_optional_step_is_missing_and_raises_problem_on_access(
    failing: Exception | None, status: int, words: str
) -> None:
    joined = await optional(failing)
    assert "summary" not in joined
    assert joined.get("summary") is None
    assert joined.get("summary", "none") == "none"
    assert dict(joined) == {"sentiment": "good"}
    assert list(joined.errors) == ["summary"]
    with pytest.raises(Problem) as caught:
        joined["summary"]
    assert (caught.value.status, caught.value.message) == (status, words)


async def test_unknown_step_name_raises_key_error() -> None:
    joined = await optional(OSError())
    assert "other" not in joined
    with pytest.raises(KeyError):
        joined["other"]


@pytest.mark.parametrize(
    ("failing", "status"), [(OSError("no weights"), 502), (BadInput("wrong"), 400), (Problem("x", 503), 503)]
)
async def test_failed_required_step_cancels_other_steps(failing: Exception, status: int) -> None:
    ended = asyncio.Event()

    async def other() -> None:
        try:
            await takes_for_ever()
        finally:
            ended.set()

    with pytest.raises(Problem) as caught:
        await together({"a": raises(failing), "other": other()})
    assert caught.value.status == status
    assert ended.is_set()


async def test_unknown_step_names_in_options_are_rejected() -> None:
    with pytest.raises(ValueError, match="there is no step b, c"):
        await together({"a": gives(1)}, needed=["b"], within={"c": 1.0})
