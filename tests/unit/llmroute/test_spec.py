"""The form of an LLMRoute: defaults, rules, and messages with a fix."""

from typing import Any

import jsonschema
import pytest

from daybreak.api.llmroute import crd
from daybreak.api.llmroute.definition import LLMRoute
from daybreak.api.llmroute.words import Asleep
from daybreak.api.schema.custom_object import InvalidSpec
from scripts.kinds import LLM_ROUTE
from scripts.schemas.json_schema import json_schema
from tests.unit.llmroute.routes import backend, canary, route


def canaried(**more: Any) -> dict[str, Any]:
    """Return a route with a canary."""
    return route(backends=[backend(), backend("next", "c")], canary=canary(**more))


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "weights 0": (
        route(backends=[backend(weight=0), backend("two", weight=0)]),
        "one of the backends needs a weight above 0",
    ),
    "a header of Daybreak": (
        route(sessionAffinity={"header": "X-Daybreak-Model"}),
        "headers that begin with x-daybreak- never come from a client",
    ),
    "a header that is none": (route(sessionAffinity={"header": "a b"}), "spec.sessionAffinity.header"),
    "stuck to nothing": (route(sessionAffinity={}), "one of header and apiKey is needed"),
    "not even to keys": (route(sessionAffinity={"apiKey": False}), "one of header and apiKey is needed"),
    "no backend": (route(backends=[]), "spec.backends"),
    "no names": (route(names=[]), "spec.names"),
    "a name that no model can have": (route(names=["a b"]), "spec.names[0]"),
    "a weight below 0": (route(backends=[backend(weight=-1)]), "spec.backends[0].weight"),
    "no model": (route(backends=[{"service": "one"}]), "spec.backends[0].model: this field is needed"),
    "an unknown field": (route(shadow={}), "spec.shadow: there is no such field"),
    "a mirror that is a backend": (route(mirror=backend()), "the mirror must not be one of the backends"),
    "a backend of another kind": (route(backends=[backend(kind="LLMRoute")]), "spec.backends[0].kind"),
    "a canary of another kind": (
        canaried(kind="ModelServer"),
        "the canary must be one of the backends",
    ),
    **{
        f"an external URL that is {name}": (
            route(externalFallback={"url": url, "model": "m"}),
            "spec.externalFallback",
        )
        for name, url in {
            "not HTTPS": "http://api.example.com/v1",
            "an address": "https://169.254.169.254/v1",
            "an address of the sixth version": "https://[fd00:ec2::254]/v1",
            "this machine": "https://localhost/v1",
            "somebody's": "https://user@api.example.com/v1",
            "with a query": "https://api.example.com/v1?a=b",
            "at no port": "https://api.example.com:65536/v1",
        }.items()
    },
    "an external model without a name": (
        route(externalFallback={"url": "https://api.example.com/v1"}),
        "spec.externalFallback.model: this field is needed",
    ),
    "a mirror of nothing": (route(mirror=backend("two", percent=0)), "spec.mirror.percent"),
    "a fallback without a model": (
        route(fallback=[{"service": "one"}]),
        "spec.fallback[0].model: this field is needed",
    ),
    "a fallback after no time": (route(fallback=[backend(holdTimeout="0s")]), "spec.fallback[0].holdTimeout"),
    "too many fallbacks": (route(fallback=[backend("one", str(n)) for n in range(5)]), "spec.fallback"),
    "a match of everything": (
        route(matches=[{"backends": [backend()]}]),
        "one of headers, apiKeys, paths and users",
    ),
    "a match of nothing": (route(matches=[{"paths": [], "backends": [backend()]}]), "spec.matches[0].paths"),
    "a match that leads nowhere": (
        route(matches=[{"paths": ["/a"], "backends": []}]),
        "spec.matches[0].backends",
    ),
    "a match without weights": (
        route(matches=[{"paths": ["/a"], "backends": [backend(weight=0)]}]),
        "one of the backends of a match needs a weight above 0",
    ),
    "a header that is compared in two ways": (
        route(matches=[{"headers": [{"name": "a", "exact": "b", "prefix": "b"}], "backends": [backend()]}]),
        "one of exact, prefix and regex is needed",
    ),
    "a header of Daybreak in a match": (
        route(
            matches=[{"headers": [{"name": "X-Daybreak-Key-Name", "exact": "b"}], "backends": [backend()]}]
        ),
        "headers that begin with x-daybreak- never come from a client",
    ),
    "an expression without a bound": (
        route(matches=[{"headers": [{"name": "a", "regex": "(a+)+"}], "backends": [backend()]}]),
        "spec.matches[0].headers[0].regex",
    ),
    "a canary without steps": (canaried(steps=[]), "spec.canary.steps"),
    "a step above 100": (canaried(steps=[{"weight": 101, "duration": "1m"}]), "spec.canary.steps[0].weight"),
    "a step of nothing": (canaried(steps=[{"weight": 0, "duration": "1m"}]), "spec.canary.steps[0].weight"),
    "a step of no time": (canaried(steps=[{"weight": 1, "duration": "0s"}]), "spec.canary.steps[0].duration"),
    "a step that says no time": (
        canaried(steps=[{"weight": 1}]),
        "spec.canary.steps[0].duration: this field is",
    ),
    "steps that fall": (
        canaried(steps=[{"weight": 25, "duration": "1m"}, {"weight": 5, "duration": "1m"}]),
        "the weights of the steps must not fall",
    ),
    "a canary that is no backend": (canaried(model="d"), "the canary must be one of the backends"),
    "a canary alone": (
        route(backends=[backend("next", "c")], canary=canary()),
        "another backend than the canary needs a weight above 0",
    ),
    "a canary and a backend without requests": (
        route(backends=[backend("next", "c"), backend(weight=0)], canary=canary()),
        "another backend than the canary needs a weight above 0",
    ),
    "an analysis without a limit": (
        canaried(analysis={"minRequests": 10}),
        "one of errorRate, ttftP95 and latencyP99 is needed",
    ),
    "no analysis": (
        canaried(**{"analysis": None}),
        "spec.canary.analysis",
    ),
    "a ratio below 1": (canaried(analysis={"ttftP95": 0.5}), "spec.canary.analysis.ttftP95"),
    "an error rate of 1": (canaried(analysis={"errorRate": 1}), "spec.canary.analysis.errorRate"),
    "a long name": ({**route(), "metadata": {"name": "a" * 64}}, "at most 63 characters"),
}


def test_minimal_route_has_documented_defaults() -> None:
    spec = LLMRoute.from_manifest(route()).spec
    assert (spec.backends[0].weight, spec.sleeping_backends, spec.session_affinity) == (1, Asleep.WAKE, None)
    assert spec.backends[0].kind == "LLMService"


@pytest.mark.parametrize(("manifest", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_invalid_route_is_rejected_with_message(manifest: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        LLMRoute.from_manifest(manifest)
    assert message in str(refusal.value)


def test_canary_route_with_session_affinity_passes_json_schema() -> None:
    written = {**canaried(), "spec": {**canaried()["spec"], "sessionAffinity": {"header": "X-Session-Id"}}}
    written["metadata"] = {"name": "chat"}
    jsonschema.validate(written, json_schema(LLM_ROUTE))


def test_crd_identifies_backends_by_service_and_model() -> None:
    """A program can then change one weight by server-side apply."""
    spec = crd.CRD.schema()["properties"]["spec"]["properties"]["backends"]
    assert spec["x-kubernetes-list-type"] == "map"
    assert spec["x-kubernetes-list-map-keys"] == ["service", "model"]
