"""Objects of an owner as they are, for plans."""

from collections.abc import Iterable
from typing import Any

from daybreak.api.common.unstructured import Manifest
from daybreak.manifests.keys import key_of
from daybreak.manifests.plan import Live
from daybreak.manifests.resources import of


def beside(
    wanted: Iterable[Manifest], *found: Manifest | None, labeled: Iterable[dict[str, Any]] = ()
) -> Live:
    """Return live objects of which each stands where a wanted one of its kind is to be.

    Args:
        wanted: The owner's objects as they should be.
        found: Objects that are there; None: nothing.
        labeled: More objects that bear the owner's label.
    """
    kinds = {each["kind"]: dict(each) for each in found if each is not None}
    named = {(of(each), key_of(each)): kinds[each["kind"]] for each in wanted if each["kind"] in kinds}
    return Live(named, {(of(each), key_of(each)): each for each in labeled})
