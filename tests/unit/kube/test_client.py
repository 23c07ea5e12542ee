"""The way to the API server: a proxy where the kubeconfig or the environment names one."""

import pytest
from kubernetes.aio.client import Configuration

from daybreak.kube.client import Api

SERVER = "https://cluster.example:6443"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("environment", "named", "wanted"),
    [
        ({}, None, None),
        ({"HTTPS_PROXY": "http://proxy:3128"}, None, "http://proxy:3128"),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "cluster.example"}, None, None),
        ({"HTTP_PROXY": "http://proxy:3128"}, None, None),
        ({"HTTPS_PROXY": "http://proxy:3128"}, "http://kubeconfig:1", "http://kubeconfig:1"),
    ],
)
async def test_the_proxy(
    environment: dict[str, str], named: str | None, wanted: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    configuration = Configuration(host=SERVER, proxy=named)
    api = Api(configuration)
    try:
        assert configuration.proxy == wanted
    finally:
        await api.close()
