"""Fixtures of the embedded cluster with Daybreak installed by Helm, and a ready tiny sample.

Files run in their order (01, 02, …). Each continues in the state of the previous one, since a model takes
minutes to start on two cores.
Nothing here reads the user's KUBECONFIG: the tests only change the embedded cluster.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from openai import OpenAI

from cluster import paths
from cluster.images import catalog
from cluster.tools.report import Report
from quickstart import chat, install
from quickstart.target import Target
from story.objects.kubernetes import NAMESPACE, Kubernetes


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the cluster's state at the moment of a failure to the test's report; later the state is gone."""
    report = yield
    kubernetes = getattr(item, "funcargs", {}).get("kubernetes")
    if report.failed and isinstance(kubernetes, Kubernetes):
        report.sections.append(("cluster", kubernetes.picture()))
    return report


@pytest.fixture(scope="session")
def kubernetes() -> Kubernetes:
    """Return the embedded cluster, which `make e2e` has started."""
    if not paths.KUBECONFIG.exists():
        pytest.fail("no embedded cluster: run `make e2e`, which starts it")
    os.environ.pop("KUBECONFIG", None)
    return Kubernetes(Target(paths.KUBECONFIG, embedded=True))


@pytest.fixture(scope="session")
def installed(kubernetes: Kubernetes) -> Kubernetes:
    """Install Daybreak by Helm from this checkout's chart and images."""
    install.daybreak(kubernetes.target, catalog.ensure(), Report())
    return kubernetes


@pytest.fixture(scope="session")
def tiny_manifest() -> dict[str, Any]:
    """Return the tiny sample as published."""
    manifest: dict[str, Any] = yaml.safe_load(Path(install.SAMPLE).read_text())
    return manifest


@pytest.fixture(scope="session")
def tiny(installed: Kubernetes, tiny_manifest: dict[str, Any]) -> str:
    """Apply the tiny sample, wait until it is ready, and return its name."""
    installed.apply(tiny_manifest)
    name: str = tiny_manifest["metadata"]["name"]
    installed.wait_ready(name)
    return name


@pytest.fixture
def client(kubernetes: Kubernetes, tiny: str) -> Iterator[OpenAI]:
    """Yield a real OpenAI client of the tiny sample, without client retries."""
    with chat.connected(kubernetes.target, NAMESPACE, tiny) as client:
        yield client
