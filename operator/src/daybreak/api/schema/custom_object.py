"""How the manifest of an object of a kind of ours is read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from daybreak.api.schema.base import readable
from daybreak.api.schema.custom_resource import NameRule, broken

Spec = TypeVar("Spec", bound=BaseModel)
Status = TypeVar("Status", bound=BaseModel)
Object = TypeVar("Object")


class InvalidSpec(ValueError):
    """A spec that cannot be used; the message names each field and what it should be."""


def identity(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Name, namespace, uid and generation, from a manifest as the API server gives it."""
    metadata = manifest["metadata"]
    return {
        "name": metadata["name"],
        "namespace": metadata.get("namespace", "default"),
        "uid": metadata.get("uid", ""),
        "generation": metadata.get("generation", 0),
    }


def read_spec(manifest: Mapping[str, Any], rules: Sequence[NameRule], form: type[Spec]) -> Spec:
    """The spec of a manifest whose name keeps the rules.

    Raises InvalidSpec when the name breaks one, or the spec has not the form of the API.
    """
    if wrong := broken(rules, manifest["metadata"]["name"]):
        raise InvalidSpec(wrong)
    try:
        return form.model_validate(manifest.get("spec") or {})
    except ValidationError as error:
        raise InvalidSpec(readable(error)) from error


def read_object(
    manifest: Mapping[str, Any],
    form: Callable[[Mapping[str, Any]], Object],
    problems: Callable[[Object], tuple[str, ...]],
) -> tuple[Object | None, tuple[str, ...]]:
    """An object from its manifest, and what is wrong with it; None: its spec has not the form of the API.

    Args:
        manifest: As the API server gives it.
        form: Reads one of its kind. Raises InvalidSpec.
        problems: Says what keeps one of the right form from being built.
    """
    try:
        found = form(manifest)
    except InvalidSpec as error:
        return None, (str(error),)
    return found, problems(found)


def known_status(form: type[Status], status: Mapping[str, Any]) -> Status:
    """A status as far as it is one; another operator may have known more fields."""
    fields = {field.alias or name for name, field in form.model_fields.items()}
    return form.model_validate({name: value for name, value in status.items() if name in fields})
