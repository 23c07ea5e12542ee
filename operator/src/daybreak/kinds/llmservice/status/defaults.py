"""Status of the defaults with which the Ray pods of a service were built."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from daybreak.api.llmservice.status import Defaults, DefaultsStatus
from daybreak.kinds.llmservice.objects.built_with import BuiltWith
from daybreak.kinds.llmservice.observe.observed import Observed

_IMAGE_LIMIT = 1024


def defaults(observed: Observed) -> DefaultsStatus | None:
    """Return the status of the defaults, or the previous one if this operator's own are unknown."""
    if observed.own is None:
        return kept(observed.status) if observed.ray_service is not None else None
    was = BuiltWith.of(observed.ray_service) if observed.ray_service is not None else None
    if was is None:
        return None
    outdated = was.wishes == observed.own.wishes and not was.same(observed.own)
    return DefaultsStatus(
        **_defaults_of(was).model_dump(),
        outdated=outdated,
        next=_defaults_of(observed.own) if outdated else None,
    )


def kept(status: Mapping[str, Any]) -> DefaultsStatus | None:
    """Return the defaults in a status, or None if there are none or they are malformed."""
    try:
        return DefaultsStatus.model_validate(status.get("defaults"))
    except ValidationError:
        return None


def note(report: DefaultsStatus | None) -> tuple[str, ...]:
    """Return the note on outdated defaults for display; empty if the operator would build the same pods."""
    if report is None or not report.outdated or report.next is None:
        return ()
    return (
        f"its pods are built with {_words(report)}; {_words(report.next)} are taken when it next sleeps, or "
        "when a change of it needs new pods, or at once with spec.runtime.followDefaults: true",
    )


def _defaults_of(built: BuiltWith) -> Defaults:
    return Defaults(
        operator=built.operator or None,
        image=built.image[:_IMAGE_LIMIT] or None,
        head_image=built.head_image[:_IMAGE_LIMIT] if built.head_image != built.image else None,
        ray_version=built.ray_version or None,
    )


def _words(report: Defaults) -> str:
    whose = f"operator {report.operator}" if report.operator else "an older operator"
    head = f", image of the head {report.head_image}" if report.head_image else ""
    return f"the defaults of {whose} (image {report.image}{head}, Ray {report.ray_version})"
