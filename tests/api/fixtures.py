"""Operators and the simulated components around them: fixtures for any control plane.

A conftest that imports them has its `plane` and `admin` fixtures.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import ControlPlane
from tests.api.admin import Admin
from tests.api.objects.servers import CHAT, OWN_ENGINES, Player
from tests.api.objects.sleeper import GATEWAY, NAME, Sleeper
from tests.api.operator_process import OperatorProcess, played_operator


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that defines which simulated services answer; see `playing/operator.py`."""
    return tmp_path_factory.mktemp("answers")


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the simulated gateways' reports; see `playing/operator.py`."""
    return tmp_path_factory.mktemp("traffic")


@pytest.fixture(scope="module")
def operator(
    plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory, answers: Path
) -> Iterator[OperatorProcess]:
    """Yield the operator as a process, watching all namespaces, for the tests of one module."""
    with played_operator(plane.kubeconfig, tmp_path_factory.mktemp("operator"), answers) as process:
        yield process


@pytest.fixture(scope="module")
def gated(
    plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory, answers: Path, traffic: Path
) -> Iterator[OperatorProcess]:
    """Replace the operator by one with gateways: of two operators, one would wait for the other's lease."""
    settings = {"PLAYED_TRAFFIC": str(traffic), "ENGINES": json.dumps(OWN_ENGINES), **GATEWAY}
    folder = tmp_path_factory.mktemp("operator")
    with played_operator(plane.kubeconfig, folder, answers, **settings) as process:
        yield process


@pytest.fixture
def sleeper(admin: Admin, answers: Path, traffic: Path) -> Iterator[Sleeper]:
    """Yield an LLMService that does not exist yet. It ends with the test, and so does its simulation."""
    yield Sleeper(admin, answers, traffic)
    if admin.get("LLMService", NAME):
        admin.delete("LLMService", NAME)


@pytest.fixture
def player(admin: Admin, answers: Path, traffic: Path) -> Iterator[Player]:
    """Yield the simulated parts around a ModelServer that does not exist yet. It ends with the test."""
    yield Player(admin, answers, traffic)
    if admin.get(CHAT.kind, CHAT.name):
        admin.delete(CHAT.kind, CHAT.name)
