"""Backends that the previous agent allocated."""

from daybreak.gateway.hold.model_backends import ModelBackends
from daybreak.gateway.hold.process import Known


def gate(backend: str, model: str, *, front: bool = False, gone: bool = False) -> Known:
    return Known(backend, 20000, "uid", "service", model, front, gone)


def test_only_model_keeps_adopted_backend_without_front() -> None:
    backends = ModelBackends(4)
    backends.adopt(0, [gate("s0", "a", front=True)])
    given = backends.give(0, ["a"])
    assert (given.front, given.models) == ("", {"a": "s0"})


def test_several_models_keep_adopted_backends_and_front() -> None:
    before = ModelBackends(4)
    before.give(0, ["a"])
    reported = before.give(0, ["a", "b", "c"])
    known = [
        gate(reported.front, "", front=True),
        *(gate(backend, model) for model, backend in reported.models.items()),
    ]
    after = ModelBackends(4)
    after.adopt(0, reversed(known))
    given = after.give(0, ["a", "b", "c"])
    assert (given.front, given.models) == (reported.front, reported.models)
    # No backend is allocated twice.
    other = after.give(1, ["d", "e"])
    assert not other.all() & given.all()


def test_removed_model_keeps_adopted_backend_as_leaving() -> None:
    backends = ModelBackends(4)
    backends.adopt(0, [gate("m0", "", front=True), gate("s0", "a"), gate("m1", "b", gone=True)])
    given = backends.give(0, ["a"])
    assert (given.front, given.models, given.leaving) == ("m0", {"a": "s0"}, {"b": "m1"})
    assert backends.leaving() == [(0, "b", "m1")]


def test_front_gets_new_backend_if_none_was_adopted() -> None:
    """The previous agent ended after it had set a second model, and before it had set the front."""
    backends = ModelBackends(4)
    backends.adopt(0, [gate("s0", "a", front=True), gate("m0", "b")])
    given = backends.give(0, ["a", "b"])
    assert given.models == {"a": "s0", "b": "m0"}
    assert given.front == "m1"


def test_first_model_gets_backend_of_service_without_models() -> None:
    backends = ModelBackends(4)
    backends.adopt(0, [gate("s0", "", front=True)])
    assert backends.give(0, ["a"]).models == {"a": "s0"}


def test_backend_of_deleted_service_is_reserved_until_requests_end() -> None:
    backends = ModelBackends(2)
    backends.adopt(0, [gate("s0", "a", front=True)])
    backends.adopt_ending(["s0", "s3", "m0"])
    assert backends.ending == {"m0"}
    assert "m0" not in backends.give(1, ["b", "c"]).all()
    backends.ended("m0")
    assert backends.ending == set()
