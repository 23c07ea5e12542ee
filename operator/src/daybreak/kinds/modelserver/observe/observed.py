"""Everything that one reconcile of a ModelServer decides on."""

from dataclasses import dataclass

from daybreak.api.common.unstructured import Manifest
from daybreak.api.modelserver.definition import ModelServer
from daybreak.gates.one_gate import observed


@dataclass(frozen=True)
class Observed(observed.Observed[ModelServer]):
    """What is seen of a ModelServer at one moment."""

    deployment: Manifest | None = None
