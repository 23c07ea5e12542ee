"""vLLM's own class for responses gives Daybreak's reason for a response that is not stored."""

import json
import subprocess
from pathlib import Path

import pytest

from bench.ray import environment as ray_environment
from daybreak_runtime.http.stored import missing

pytestmark = [pytest.mark.xdist_group("serving"), pytest.mark.timeout(600)]


def test_missing_stored_response_returns_404_with_reason() -> None:
    done = subprocess.run(  # noqa: S603 -- our own program
        [ray_environment.python(), Path(__file__).with_name("stored_responses.py")],
        check=False,
        capture_output=True,
        text=True,
        env=ray_environment.variables(ray_environment.ENGINE_ON_CPUS),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    errors = json.loads(done.stdout.splitlines()[-1])
    for stores in (True, False):
        for error in errors[str(stores)]:
            assert error["code"] == 404
            assert error["message"] == missing("resp_gone", stores=stores)
