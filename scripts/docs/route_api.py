"""Page docs/route-api.md: every field of an LLMRoute, from its models and generated CRD."""

from daybreak.api.llmroute import crd, definition
from daybreak.api.llmroute.canary import CanaryPhase
from daybreak.api.llmroute.spec import LLMRouteSpec
from daybreak.api.llmroute.status import BackendState, LLMRouteStatus, RouteConditionType, RouteReason
from daybreak.api.llmroute.words import Asleep
from scripts.docs.llmservice_api import sections, words

HEAD = f"""\
<!-- Made by `make generate` from operator/src/daybreak/api; do not edit. -->
# LLMRoute

`daybreak.dev/v1alpha1`. What it does and how it behaves is in [routes.md](routes.md), a whole one in
[manifests/samples](../manifests/samples/route.yaml). How tables are read is said in [api.md](api.md).

`metadata.name`: at most {definition.NAME_LIMIT} lower-case letters, digits and `-`, beginning with a letter.
"""


def route_api_md() -> str:
    """Return the whole page."""
    found = crd.CRD.schema()["properties"]
    parts = [HEAD, "## Spec\n", *sections(LLMRouteSpec, found["spec"])]
    parts += ["## Status\n", *sections(LLMRouteStatus, found["status"]), "## Words\n"]
    parts.append(words("Conditions", RouteConditionType))
    parts.append(words("Reasons", RouteReason))
    parts.append(words("States of a backend", BackendState))
    parts.append(words("Phases of a canary", CanaryPhase))
    parts.append(words("`asleep`", Asleep))
    return "\n".join(parts)
