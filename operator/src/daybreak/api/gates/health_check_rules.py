"""Validation of the health checks of clients (`sleep.healthChecks`)."""

from collections.abc import Iterator

from daybreak.api.gates.access import Access
from daybreak.api.gates.sleep import Sleep


def problems(sleep: Sleep | None, access: Access | None) -> Iterator[str]:
    """Yield each key that the workload does not have, as a sentence with the field's path first."""
    keys = access.api_keys if access is not None else ()
    known = [key.name or f"{key.secret_ref.name}/{key.secret_ref.key}" for key in keys]
    for number, name in enumerate(sleep.health_checks.keys if sleep is not None else ()):
        if name not in known:
            there = f"use one of {', '.join(known)}" if known else "name it there, or leave it out"
            yield f"spec.sleep.healthChecks.keys[{number}]: spec.access.apiKeys has no key {name}; {there}"
