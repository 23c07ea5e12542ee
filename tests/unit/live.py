"""Live objects of an owner, for plans."""

from collections.abc import Iterable
from typing import Any

from daybreak.api.common.unstructured import Manifest
from daybreak.manifests.keys import key_of
from daybreak.manifests.plan import Live
from daybreak.manifests.resources import of


def beside(
    desired: Iterable[Manifest], *found: Manifest | None, labeled: Iterable[dict[str, Any]] = ()
) -> Live:
    """Return live objects, each under the key of the desired object of the same kind.

    Args:
        desired: The owner's desired objects.
        found: Existing objects; None if one is missing.
        labeled: More objects with the owner's label.
    """
    kinds = {each["kind"]: dict(each) for each in found if each is not None}
    named = {(of(each), key_of(each)): kinds[each["kind"]] for each in desired if each["kind"] in kinds}
    return Live(named, {(of(each), key_of(each)): each for each in labeled})
