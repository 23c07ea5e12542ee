"""The default installation, read from manifests/base: the operator's rights, and its settings."""

import json
from collections.abc import Iterable
from typing import Any

from cluster import paths
from daybreak.platform import Platform
from daybreak.settings import Settings
from quickstart.target import NAMESPACE
from tests.chart.tools import load

_OPERATOR = paths.REPOSITORY / "manifests" / "base" / "operator.yaml"
_RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_PREFIX = "DAYBREAK_"


def rights() -> list[dict[str, Any]]:
    """Return the objects that give the operator its rights."""
    return [each for each in _objects() if each["kind"] in _RIGHTS]


def listed(objects: Iterable[dict[str, Any]]) -> str:
    """Return objects as text for `kubectl apply`, after the namespace that the operator is installed in."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [namespace, *objects]})


def settings() -> dict[str, str]:
    """Return the operator's DAYBREAK_… variables, without the prefix."""
    [deployment] = [each for each in _objects() if each["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return {
        # What has no value in writing is the namespace of the operator's pod.
        variable["name"].removeprefix(_PREFIX): variable.get("value", NAMESPACE)
        for variable in container["env"]
        if variable["name"].startswith(_PREFIX)
    }


def platform() -> Platform:
    """Return the installation's properties that the builders use."""
    return Settings.from_environment({_PREFIX + name: value for name, value in settings().items()}).platform


def _objects() -> list[dict[str, Any]]:
    return load(_OPERATOR.read_text())
