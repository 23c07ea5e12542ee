"""Condition `Schedulable` of any kind: the result of the fit check, or the reason for a skipped check."""

from collections.abc import Mapping, Sequence
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.conditions import Reason, ShortCondition
from daybreak.api.common.unstructured import at, text
from daybreak.scheduling.fit import Misfit


def check_off(manifest: Mapping[str, Any]) -> bool:
    """Return True if an object's annotation states that nodes are added on demand."""
    annotations = at(manifest, "metadata", "annotations")
    return text(annotations.get(names.FIT_CHECK_ANNOTATION)).lower() == names.FIT_CHECK_OFF


def nodes_come(kind: str) -> str:
    """Return advice for an object of a kind if the misfit may be temporary."""
    off = f"{names.FIT_CHECK_ANNOTATION}={names.FIT_CHECK_OFF}"
    return f"if nodes are added on demand, annotate the {kind} with {off}"


def schedulable(
    misfits: Sequence[Misfit] | None, kind: str, fits: str, *, valid: bool, known: bool
) -> ShortCondition:
    """Return the value of the condition.

    Args:
        misfits: Parts that fit on no node, or None if not checked.
        kind: Kind of the object.
        fits: Noun phrase for the parts that fit if there is no misfit.
        valid: True if the spec can be built.
        known: True if nodes are known.
    """
    if misfits:
        message = "; ".join([*(misfit.message for misfit in misfits), nodes_come(kind)])
        return "False", Reason.NO_NODE_FITS, message
    if misfits is not None:
        return "True", Reason.NODES_FIT, f"{fits} fit on the nodes"
    if not valid:
        return "Unknown", Reason.INVALID_SPEC, "not checked, since the spec is not valid"
    if not known:
        return "Unknown", Reason.NODES_UNKNOWN, "not checked, since the operator may not read nodes"
    off = f"the annotation {names.FIT_CHECK_ANNOTATION} is {names.FIT_CHECK_OFF}"
    return "Unknown", Reason.NODES_UNKNOWN, f"not checked, since {off}"
