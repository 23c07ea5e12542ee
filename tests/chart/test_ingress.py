"""Samples of Ingress and Gateway API: a real API server accepts them, and they lead to Daybreak's objects."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cluster import ControlPlane
from daybreak.api.common import names
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.gateways.objects import gateway
from tests.chart.tools import ROOT, dump, gateway_api_crds, of_kind, one
from tests.golden.test_samples import PLATFORM

FOLDER = ROOT / "manifests" / "ingress"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield an API server that knows the Gateway API."""
    with ControlPlane(tmp_path_factory.mktemp("ingress") / "plane", crds=gateway_api_crds()) as running:
        yield running


def documents(file: str) -> list[dict[str, Any]]:
    """Return the objects of a sample."""
    return [each for each in yaml.safe_load_all((FOLDER / file).read_text()) if each]


@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("*.yaml")))
def test_api_server_accepts_ingress_samples(plane: ControlPlane, file: str) -> None:
    output = plane.kubectl("apply", "--server-side", "--validate=strict", "-f", str(FOLDER / file))
    assert output.count("serverside-applied") == len(documents(file)) > 0


def test_api_server_rejects_invalid_timeouts(plane: ControlPlane) -> None:
    route = of_kind(documents("httproute.yaml"), "HTTPRoute")[0]
    route["spec"]["rules"][0]["timeouts"] = {"request": "1s", "backendRequest": "2s"}
    with pytest.raises(Exception, match="backendRequest timeout cannot be longer than request timeout"):
        plane.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=dump([route]))


def test_samples_lead_to_shared_address_of_all_models() -> None:
    made = [each for each in gateway("models", [LLM_SERVICES], PLATFORM) if each["kind"] == "Service"]
    [port] = one(made, "Service")["spec"]["ports"]
    [path] = one(documents("ingress.yaml"), "Ingress")["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {"name": names.ROUTER, "port": {"name": port["name"]}}
    [rule] = one(documents("httproute.yaml"), "HTTPRoute")["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": names.ROUTER, "port": port["port"]}]


def test_attached_routes_lead_to_services_created_by_daybreak() -> None:
    """To the address of all models, and to that of a route of the samples."""
    own = yaml.safe_load((ROOT / "manifests" / "samples" / "route-address.yaml").read_text())
    assert own["spec"]["address"] == "Dedicated"
    models, outside = documents("httproute-attached.yaml")
    backends = [rule["backendRefs"] for route in (models, outside) for rule in route["spec"]["rules"]]
    assert backends == [[{"name": names.ROUTER, "port": 80}], [{"name": own["metadata"]["name"], "port": 80}]]
    for route in (models, outside):
        [parent] = route["spec"]["parentRefs"]
        assert parent["namespace"] not in (None, route["metadata"].get("namespace"))
        assert all(
            rule["timeouts"] == {"request": "0s", "backendRequest": "0s"} for rule in route["spec"]["rules"]
        )


def test_ingress_and_gateway_samples_use_tls() -> None:
    assert one(documents("ingress.yaml"), "Ingress")["spec"]["tls"]
    [listener] = one(documents("httproute.yaml"), "Gateway")["spec"]["listeners"]
    assert (listener["protocol"], listener["tls"]["mode"]) == ("HTTPS", "Terminate")
