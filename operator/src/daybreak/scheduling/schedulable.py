"""The condition Schedulable, of any kind: what the fit check says, or why nobody has looked."""

from collections.abc import Mapping, Sequence
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.conditions import Reason, Said
from daybreak.api.common.unstructured import at, text
from daybreak.scheduling.fit import Misfit


def check_off(manifest: Mapping[str, Any]) -> bool:
    """Whether an object says that nodes come when they are asked for."""
    annotations = at(manifest, "metadata", "annotations")
    return text(annotations.get(names.FIT_CHECK_ANNOTATION)).lower() == names.FIT_CHECK_OFF


def nodes_come(kind: str) -> str:
    """What to do with an object of a kind where something fits nowhere for the moment only."""
    off = f"{names.FIT_CHECK_ANNOTATION}={names.FIT_CHECK_OFF}"
    return f"if nodes are added on demand, annotate the {kind} with {off}"


def schedulable(misfits: Sequence[Misfit] | None, kind: str, fits: str, *, valid: bool, known: bool) -> Said:
    """What the condition says.

    Args:
        misfits: What fits nowhere; None: nobody has looked.
        kind: The object's kind.
        fits: What fits where nothing is a misfit.
        valid: Whether the spec can be built.
        known: Whether nodes are known.
    """
    if misfits:
        said = "; ".join([*(misfit.message for misfit in misfits), nodes_come(kind)])
        return "False", Reason.NO_NODE_FITS, said
    if misfits is not None:
        return "True", Reason.NODES_FIT, f"{fits} fit on the nodes"
    if not valid:
        return "Unknown", Reason.INVALID_SPEC, "not checked, since the spec is not valid"
    if not known:
        return "Unknown", Reason.NODES_UNKNOWN, "not checked, since the operator may not read nodes"
    off = f"the annotation {names.FIT_CHECK_ANNOTATION} is {names.FIT_CHECK_OFF}"
    return "Unknown", Reason.NODES_UNKNOWN, f"not checked, since {off}"
