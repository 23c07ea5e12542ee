"""An object of a kind that owns others, on the real API server: how the tests look at it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from daybreak.api.common.names import FIT_CHECK_ANNOTATION, FIT_CHECK_OFF
from tests.api.admin import Admin, eventually


@dataclass(frozen=True)
class Subject:
    """The one object of a kind that the tests of it make."""

    kind: str
    name: str
    objects: Mapping[str, str]
    """Kind and name of each object that it owns."""
    spec: Mapping[str, Any]

    def manifest(self, **spec: Any) -> dict[str, Any]:
        """Return the object; None leaves a field out."""
        return {
            "apiVersion": "daybreak.dev/v1alpha1",
            "kind": self.kind,
            # There are no nodes here; tests/gpu has some.
            "metadata": {"name": self.name, "annotations": {FIT_CHECK_ANNOTATION: FIT_CHECK_OFF}},
            "spec": {name: value for name, value in {**self.spec, **spec}.items() if value is not None},
        }

    @contextmanager
    def made(self, admin: Admin) -> Iterator[dict[str, Any]]:
        """It is there with all its objects, and goes in the end."""
        made = admin.create(self.manifest())
        eventually("its objects", lambda: self.everything(admin))
        yield made
        if admin.get(self.kind, self.name):
            admin.delete(self.kind, self.name)

    def everything(self, admin: Admin) -> dict[str, Any] | None:
        """Return the owned objects, when all are there."""
        found = {kind: admin.get(kind, name) for kind, name in self.objects.items()}
        return found if all(found.values()) else None

    def status(self, admin: Admin) -> dict[str, Any]:
        """Return the status that the operator writes."""
        found: dict[str, Any] = (admin.get(self.kind, self.name) or {}).get("status") or {}
        return found

    def condition(self, admin: Admin, kind: str) -> dict[str, Any]:
        """Return a condition; empty when it is not there."""
        return next((each for each in self.status(admin).get("conditions", ()) if each["type"] == kind), {})

    def phase(self, admin: Admin, desired: str) -> dict[str, Any]:
        """Return the status, once it has that phase."""

        def there() -> dict[str, Any] | None:
            found = self.status(admin)
            return found if found.get("phase") == desired else None

        return eventually(f"phase {desired}", there)

    def stalled(self, admin: Admin, reason: str) -> str:
        """Return the message, once it is stalled for that reason."""

        def there() -> dict[str, Any] | None:
            found = self.condition(admin, "Stalled")
            return found if found.get("reason") == reason else None

        found = eventually(f"Stalled, {reason}", there)
        assert found["status"] == "True"
        message: str = found["message"]
        return message

    def stalled_no_more(self, admin: Admin) -> None:
        """Wait until no action required."""
        eventually("not stalled", lambda: self.condition(admin, "Stalled").get("status") == "False")

    def gone(self, admin: Admin) -> bool:
        """Return True if none of the owned objects exists."""
        return not any(admin.get(kind, name) for kind, name in self.objects.items())
