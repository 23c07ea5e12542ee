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

`daybreak.dev/v1alpha1`. [routes.md](routes.md) describes its behavior,
[route.yaml](../manifests/samples/route.yaml) is a complete example, and [api.md](api.md#reading-the-tables)
explains the tables.

`metadata.name`: at most {definition.NAME_LIMIT} lower-case letters, digits and `-`, starting with a letter.
"""


def route_api_md() -> str:
    """Return the page docs/route-api.md."""
    found = crd.CRD.schema()["properties"]
    parts = [HEAD, "## Spec\n", *sections(LLMRouteSpec, found["spec"])]
    parts += ["## Status\n", *sections(LLMRouteStatus, found["status"]), "## Values\n"]
    parts.append(words("Conditions", RouteConditionType))
    parts.append(words("Reasons", RouteReason))
    parts.append(words("States of a backend", BackendState))
    parts.append(words("Phases of a canary", CanaryPhase))
    parts.append(words("`asleep`", Asleep))
    return "\n".join(parts)
