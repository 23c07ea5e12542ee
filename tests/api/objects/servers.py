"""The ModelServer of the API tests, and what plays around it.

The Deployment's controller is the real one; the kubelet is played, since there is no node.
"""

from pathlib import Path
from typing import Any

from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.owners import Subject
from tests.api.playing.words import PlayedWords

NAME = "chat"
OWN_ENGINES = {
    "embedder": {
        "image": "embedder:1",
        "args": ["--model={weights}"],
        "flagStyle": "none",
        "port": 8090,
        "readinessPath": "/up",
        "protocol": "Any",
    }
}
"""Engines that the installation adds to the built-in ones."""
CHAT = Subject(
    "ModelServer",
    NAME,
    {
        "ServiceAccount": "server.chat-sa",
        "NetworkPolicy": "server.chat-ray",
        "PodDisruptionBudget": "server.chat-ray",
        "Service": "chat",
        "Deployment": "chat-server",
    },
    {
        "engine": "vllm",
        "model": {"name": "tiny", "source": "file:///models/tiny"},
        "accelerator": {"kind": "cpu"},
    },
)

CRASHED = {
    "containerStatuses": [
        {
            "name": "engine",
            "image": "engine:1",
            "imageID": "",
            "ready": True,
            "restartCount": 1,
            "state": {"running": {}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no such device"}},
        }
    ]
}
"""Status of a pod whose engine has ended once and was restarted."""
_KUBELET = "tests.daybreak.dev/kubelet"


def pods(admin: Admin) -> list[dict[str, Any]]:
    """Return the server's pods."""
    found: list[dict[str, Any]] = admin.list("Pod", labelSelector=names.owner_selector(f"server.{NAME}"))
    return found


def ready(pod: dict[str, Any]) -> bool:
    """Return True if a pod reports that it is ready."""
    message = pod["status"].get("conditions", ())
    return any((each["type"], each["status"]) == ("Ready", "True") for each in message)


def stays_a_while(admin: Admin, pod: str) -> None:
    """When it is deleted a pod stays, as it does for as long as its kubelet needs, until `is_gone`."""
    admin.merge("Pod", pod, {"metadata": {"finalizers": [_KUBELET]}})


def is_gone(admin: Admin, pod: str) -> None:
    """Have the kubelet end a pod."""
    found = admin.get("Pod", pod)["metadata"].get("finalizers", [])
    admin.merge("Pod", pod, {"metadata": {"finalizers": [each for each in found if each != _KUBELET]}})


def image_of(pod: dict[str, Any]) -> str:
    """Return the image of the server's engine."""
    return str(pod["spec"]["containers"][0]["image"])


class Player(PlayedWords):
    """Plays the kubelet, the engine and gateways for it.

    Args:
        admin: The test's hands in its namespace.
        answers: Folder that says which services answer; see `playing/operator.py`.
        traffic: Folder that says what gateways say.
    """

    def __init__(self, admin: Admin, answers: Path, traffic: Path) -> None:
        super().__init__(answers / f"{admin.namespace}.{NAME}", traffic / f"{admin.namespace}.server.{NAME}")
        self.admin = admin

    def starts(self, image: str = "", **status: Any) -> str:
        """Make the server's pod (with several, the one with that image) run and be ready, or set this status.

        Returns the pod's name.
        """

        def there() -> dict[str, Any] | None:
            found = [pod for pod in pods(self.admin) if image in ("", image_of(pod))]
            return found[0] if len(found) == 1 else None

        name = str(eventually("its pod", there)["metadata"]["name"])
        conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "PodScheduled")]
        running = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
        message = status or running | {"conditions": conditions}
        self.admin.merge("Pod", name, {"status": message}, subresource="status")
        return name

    def rolls(self, phase: str) -> dict[str, Any]:
        """Wait until the last change is applied. Returns the rollout's status."""

        def there() -> dict[str, Any] | None:
            found: dict[str, Any] = CHAT.status(self.admin).get("rollout") or {}
            return found if found.get("phase") == phase else None

        return eventually(f"rollout {phase}", there)

    def reaches(self, phase: str, gate: str) -> dict[str, Any]:
        """Wait until the status says this. Returns the model's gate."""

        def there() -> dict[str, Any] | None:
            report = CHAT.status(self.admin)
            found: dict[str, Any] = ((report.get("gate") or {}).get("models") or [{}])[0]
            return found if (report.get("phase"), found.get("state")) == (phase, gate) else None

        try:
            return eventually(f"{phase}, gate {gate}", there)
        except AssertionError as error:
            raise AssertionError(f"{error}; its status is {CHAT.status(self.admin)}") from None

    def awake(self, **spec: Any) -> dict[str, Any]:
        """Make it, and bring it up. Returns its model's gate."""
        self.admin.create(CHAT.manifest(**spec))
        self.starts()
        self.answers()
        return self.reaches("Awake", "Open")
