"""The real controller of LeaderWorkerSet as a process of this machine, with its own definitions and webhooks.

It is no part of the project and of none of its other tests: $LWS_PROGRAM is its program, and $LWS_SOURCES the
folder with its sources. CONTRIBUTING.md says how to get both.
"""

import base64
import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from cluster import ControlPlane
from cluster.control_plane.certs import Authority
from tests.api.admin import eventually
from tests.gateway.ports import free_ports

_NAME = "lws"
_OF_GROUPS = {"matchExpressions": [{"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}]}
"""Selector of the pods that its webhooks receive, as it is installed."""


def crds() -> Path:
    """Return the folder with LeaderWorkerSet's CustomResourceDefinitions."""
    return Path(os.environ["LWS_SOURCES"]) / "config" / "crd" / "bases"


@contextlib.contextmanager
def lws(plane: ControlPlane) -> Iterator[Path]:
    """Run it as the control plane's administrator, with the API server asking its webhooks; gives its log."""
    port = free_ports(1)
    authority = Authority(plane.directory / "pki", "daybreak")
    pair = authority.issue("lws", "lws", hosts=["127.0.0.1"])
    served = plane.directory / "pki" / "lws"
    served.mkdir(exist_ok=True)
    shutil.copy(pair.certificate, served / "tls.crt")
    shutil.copy(pair.key, served / "tls.key")
    settings = plane.directory / "pki" / "lws.yaml"
    settings.write_text(yaml.safe_dump(_settings(port, served)))
    command = [os.environ["LWS_PROGRAM"], f"--config={settings}"]
    plane.processes.start(_NAME, command, {"KUBECONFIG": str(plane.kubeconfig)})
    log = plane.processes.log(_NAME)
    eventually("its webhooks", lambda: "Serving webhook server" in log.read_text(), 60)
    plane.apply(yaml.safe_dump_all(_webhooks(port, authority.pair.certificate)))
    time.sleep(1)  # the API server has not read them yet, and nothing reports when it has
    yield log
    plane.processes.check(_NAME)
    plane.processes.stop(_NAME)


def _settings(port: int, served: Path) -> dict[str, Any]:
    return {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"port": port, "host": "127.0.0.1", "certDir": str(served)},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": "0"},
    }


def _webhooks(port: int, authority: Path) -> list[dict[str, Any]]:
    """Return LeaderWorkerSet's webhook configurations, with an address of this machine for the Service."""
    text = (Path(os.environ["LWS_SOURCES"]) / "config" / "webhook" / "manifests.yaml").read_text()
    bundle = base64.b64encode(authority.read_bytes()).decode()
    found = [each for each in yaml.safe_load_all(text) if each]
    for configuration in found:
        configuration["metadata"]["name"] = f"lws-{configuration['metadata']['name']}"
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
            if path.endswith("-v1-pod"):
                webhook["objectSelector"] = _OF_GROUPS
    return found
