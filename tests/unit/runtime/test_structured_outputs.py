"""The engine has one backend for structured outputs, so no request can end it by asking for another."""

from types import SimpleNamespace

import pytest

from daybreak_runtime.structured_outputs import BACKEND, use_one_backend


@pytest.mark.parametrize(
    ("written", "used"), [("auto", BACKEND), ("guidance", "guidance"), ("outlines", "outlines")]
)
def test_auto_backend_is_replaced_and_explicit_backend_is_kept(written: str, used: str) -> None:
    engine_config = SimpleNamespace(structured_outputs_config=SimpleNamespace(backend=written))
    use_one_backend(engine_config)
    assert engine_config.structured_outputs_config.backend == used
