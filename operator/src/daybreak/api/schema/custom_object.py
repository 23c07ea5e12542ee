"""Read the manifests of Daybreak's custom resources."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from daybreak.api.schema.base import readable
from daybreak.api.schema.custom_resource import NameRule, broken

Spec = TypeVar("Spec", bound=BaseModel)
Status = TypeVar("Status", bound=BaseModel)
Object = TypeVar("Object")


class InvalidSpec(ValueError):
    """Unusable spec; the message names each invalid field and its expected value."""


def identity(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name, namespace, UID and generation in a manifest from the API server."""
    metadata = manifest["metadata"]
    return {
        "name": metadata["name"],
        "namespace": metadata.get("namespace", "default"),
        "uid": metadata.get("uid", ""),
        "generation": metadata.get("generation", 0),
    }


def read_spec(manifest: Mapping[str, Any], rules: Sequence[NameRule], form: type[Spec]) -> Spec:
    """Return the spec of a manifest with a valid name.

    Raises:
        InvalidSpec: The name breaks a rule, or the spec does not have the form of the API.
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
    """Return an object, or None if its spec is malformed, with the problems of its manifest.

    Args:
        manifest: Manifest from the API server.
        form: Function that reads an object of the kind. Raises InvalidSpec.
        problems: Function that returns the problems that prevent a build of a well-formed object.
    """
    try:
        found = form(manifest)
    except InvalidSpec as error:
        return None, (str(error),)
    return found, problems(found)


def known_status(form: type[Status], status: Mapping[str, Any]) -> Status:
    """Return the known fields of a status; another operator version may know more fields."""
    fields = {field.alias or name for name, field in form.model_fields.items()}
    return form.model_validate({name: value for name, value in status.items() if name in fields})
