"""Memory of the gateway's programs: the first programs stay small, and the agent loads only what it needs."""

import json
import os
import subprocess
import sys

import pytest

from daybreak.gateway.__main__ import PROGRAMS
from tests.api.operator_process import SOURCES

LARGE = {"aiohttp", "ctypes", "jinja2", "kubernetes", "orjson", "pydantic", "ssl", "structlog", "yaml"}
"""Modules that take megabytes, and modules that only the agent needs."""

NOT_OF_THE_AGENT = {"kopf", "kubernetes", "pydantic", "requests", "urllib3", "yaml"}
"""Modules that take megabytes and that the agent does not need: the API server validates its input."""

_LOADED = """
import json, sys
from daybreak.gateway.__main__ import program
from daybreak.gateway.environment import Environment
program(sys.argv[1], Environment({}))
print(json.dumps([name for name, module in sys.modules.items() if module is not None]))
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_loads_no_large_modules(name: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    command = [sys.executable, "-c", _LOADED, name]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)  # noqa: S603
    loaded = json.loads(output.stdout)
    assert f"daybreak.gateway.supervisor.{'agent_keeper' if name == 'agent' else 'supervisor'}" in loaded
    assert not LARGE & set(loaded)
    assert name == "haproxy" or "asyncio" not in loaded


def test_agent_loads_no_api_types_and_no_unused_clients() -> None:
    command = [sys.executable, "-c", "import daybreak.gateway.agent.__main__, sys; print(*sys.modules)"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)  # noqa: S603
    loaded = set(output.stdout.split())
    assert {"aiohttp", "daybreak.gateway.agent.agent", "jinja2"} <= loaded
    assert not NOT_OF_THE_AGENT & loaded
