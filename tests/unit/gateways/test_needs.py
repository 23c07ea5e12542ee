"""Needs of a gateway for the workloads and routes of its namespace, read once per version of them."""

from typing import Any

import pytest

from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.gateways.needs import NOTHING, GatewayNeeds, Needs, needs
from daybreak.manifests.keys import Key
from tests.unit.kube.counted import Counted

BOTH = (LLM_SERVICES, LLM_ROUTES)


def service(name: str, *secrets: str, version: int = 1, namespace: str = "ns") -> dict[str, Any]:
    """Return an LLMService whose API keys are in these Secrets."""
    keys = [{"secretRef": {"name": secret, "key": "key"}} for secret in secrets]
    metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"access": {"apiKeys": keys}}}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, NOTHING),
        ({"access": {"apiKeys": [{"secretRef": {"name": "a"}}, {"secretRef": {}}]}}, Needs(frozenset({"a"}))),
        (
            {
                "externalFallback": {
                    "url": "https://api.example.com:8443/v1",
                    "apiKeySecretRef": {"name": "k"},
                }
            },
            Needs(frozenset({"k"}), frozenset({8443})),
        ),
        (
            {"externalFallback": {"url": "https://api.example.com", "caSecretRef": {"name": "ca"}}},
            Needs(frozenset({"ca"}), frozenset({443})),
        ),
        ({"externalFallback": {"url": "https://api.example.com:99999"}}, NOTHING),
    ],
)
def test_object_needs_its_secrets_and_external_ports(spec: dict[str, Any], found: Needs) -> None:
    assert needs({"metadata": {}, "spec": spec}) == found


def test_each_version_of_object_is_read_once() -> None:
    cache = Counted()
    for number in range(100):
        cache.put(LLM_SERVICES, service(f"s{number}", f"k{number % 3}"))
    found = GatewayNeeds(cache)
    assert found.of("ns", BOTH).secrets == {"k0", "k1", "k2"}
    cache.read = 0
    cache.put(LLM_SERVICES, service("s7", "new", version=2))
    cache.put(LLM_SERVICES, service("late", "late"))
    cache.forget(LLM_SERVICES, Key("ns", "s8"))
    assert found.of("ns", BOTH).secrets == {"k0", "k1", "k2", "late", "new"}
    assert cache.read == 2


def test_objects_of_other_namespaces_are_not_read() -> None:
    cache = Counted()
    for number in range(100):
        cache.put(LLM_SERVICES, service(f"s{number}", "key", namespace="other"))
    cache.put(LLM_SERVICES, service("s", "own"))
    assert GatewayNeeds(cache).of("ns", BOTH).secrets == {"own"}
    assert (cache.read, cache.named) == (1, 1)


def test_deleted_object_has_no_needs() -> None:
    cache = Counted()
    cache.put(LLM_SERVICES, service("s", "own"))
    found = GatewayNeeds(cache)
    assert found.of("ns", BOTH).secrets == {"own"}
    cache.forget(LLM_SERVICES, Key("ns", "s"))
    assert found.of("ns", BOTH) == NOTHING
    cache.put(LLM_SERVICES, service("s", "own", version=9))
    assert found.of("ns", BOTH).secrets == {"own"}
