"""LoRA adapters: their state, their availability to clients, and their status."""

from typing import Any

import pytest

from daybreak.api.common.conditions import ConditionType
from daybreak.api.llmservice.status import AdapterState
from daybreak.kinds.llmservice.observe.observed import AdapterReport, Reports
from daybreak.ray.serve.adapter_origin import identity
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    HEAD,
    WORKER,
    Manifest,
    World,
    conditions,
    manifest,
    message,
    pod,
    running,
    service,
)
from tests.unit.llmservice.decide.scenes.sleeping import IDLE, LONG, asleep, gate, up, view
from tests.unit.llmservice.decision import Decision

TWO = ("fr", "de")


def model(*names: str, root: str = "/adapters") -> Manifest:
    """Return the tiny model with adapters of these names."""
    adapters = [{"name": name, "source": f"file://{root}/{name}"} for name in names]
    return {**CPU_MODEL, "lora": {"adapters": adapters}}


def ids(written: Manifest) -> dict[str, str]:
    """Return the digest of each adapter of a model."""
    lora = service(written).spec.models[0].lora
    assert lora is not None
    return {adapter.name: identity(adapter) for adapter in lora.adapters}


def says(written: Manifest, *pods: str, **states: str | tuple[str, str]) -> Reports:
    """Return replicas with equal reports about the adapters of a model; an unlisted adapter is loaded."""
    reported = {
        name: AdapterReport(digest, *([state] if isinstance(state, str) else state))
        for name, digest in ids(written).items()
        for state in [states.get(name, "Loaded")]
    }
    return dict.fromkeys(pods or ("w-1",), reported)


def adapters(decision: Decision) -> dict[str, tuple[AdapterState, str | None]]:
    """Return state and message of each adapter of the first model."""
    return {each.name: (each.state, each.message) for each in decision.status.models[0].lora or ()}


def states(decision: Decision) -> list[str]:
    """Return the states of the adapters."""
    return [state.value for state, _ in adapters(decision).values()]


def listed(decision: Decision) -> Any:
    """Return the names that the gateways list."""
    assert decision.status.gate is not None
    return [name for gate in decision.status.gate.models for name in (gate.name, *(gate.adapters or ()))]


def edit(world: World, written: Manifest) -> None:
    """Change the model of a service that may sleep, which KubeRay then applies."""
    world.edit(manifest(written, sleep={"afterIdle": "10m"}))


def test_model_without_lora_has_no_adapter_status() -> None:
    assert up().step().status.models[0].lora is None


def test_initial_adapters_are_listed_before_load_and_ready_after_load() -> None:
    world = up(model(*TWO))
    waiting = world.step()
    assert (states(waiting), listed(waiting)) == (["Pending"] * 2, ["tiny", *TWO])
    assert conditions(waiting)["Reconciling"] == "True/Updating"
    assert message(waiting, ConditionType.RECONCILING) == "replicas are loading fr, de"
    ready = world.step(reports=says(model(*TWO)))
    assert (states(ready), listed(ready)) == (["Ready"] * 2, ["tiny", *TWO])
    assert conditions(ready)["Reconciling"] == "False/Reconciled"


def test_new_adapter_is_listed_after_load_and_model_stays_ready() -> None:
    world = up(model("fr"))
    world.step(reports=says(model("fr")))
    edit(world, model(*TWO))
    changed = world.step(ray_service=running(world, generation=2))
    assert (states(changed), listed(changed)) == (["Ready", "Pending"], ["tiny", "fr"])
    assert gate(changed) == ("Awake", "Open", None)
    assert changed.status.models[0].state == "Ready"
    loaded = world.step(reports=says(model(*TWO)))
    assert (states(loaded), listed(loaded)) == (["Ready"] * 2, ["tiny", *TWO])


def test_removed_adapter_is_immediately_no_longer_listed() -> None:
    world = up(model(*TWO))
    world.step(reports=says(model(*TWO)))
    edit(world, model("de"))
    assert listed(world.step()) == ["tiny", "de"]


def test_rejected_adapter_is_reported_and_base_model_stays_ready() -> None:
    world = up(model(*TWO))
    refused = world.step(reports=says(model(*TWO), de=("Rejected", "its rank is 64")))
    assert adapters(refused)["de"] == (AdapterState.REJECTED, "its rank is 64")
    assert listed(refused) == ["tiny", "fr"]
    assert conditions(refused)["Ready"] == "True/Serving"
    assert conditions(refused)["Stalled"] == "False/Reconciled"
    assert message(refused).endswith("; adapter de of model tiny is rejected: its rank is 64")
    # A different adapter with that name is a new attempt.
    other = {**model("fr"), "lora": {"adapters": [{"name": "de", "source": "file:///other"}]}}
    edit(world, other)
    again = world.step()
    assert states(again) == ["Pending"]
    assert listed(world.step(reports=says(other))) == ["tiny", "de"]


def test_failed_adapter_stays_listed_and_is_reported() -> None:
    """A replica with an unavailable adapter retries, and reports the cause to clients."""
    world = up(model("fr"))
    failed = world.step(reports=says(model("fr"), fr=("Failed", "no network")))
    assert (states(failed), listed(failed)) == (["Failed"], ["tiny", "fr"])
    assert message(failed).endswith("; adapter fr of model tiny is failed: no network")


def test_adapter_is_ready_when_loaded_by_every_replica() -> None:
    world = up(model("fr"))
    pods = (HEAD, WORKER, pod("w-2"))
    some = {**says(model("fr")), "w-2": says(model("fr"), fr="Loading")["w-1"]}
    assert states(world.step(pods=pods, reports=some)) == ["Pending"]
    assert states(world.step(reports={**some, "w-2": {}})) == ["Pending"]
    assert states(world.step(reports=says(model("fr"), "w-1", "w-2"))) == ["Ready"]


def test_report_of_another_adapter_or_cluster_is_ignored() -> None:
    world = up(model("fr"))
    stale = says(model("fr", root="/other"))
    assert states(world.step(reports=stale)) == ["Pending"]
    elsewhere = (HEAD, WORKER, pod("w-9", cluster="chat-bbbbb"))
    assert states(world.step(pods=elsewhere, reports=says(model("fr"), "w-9"))) == ["Pending"]


def test_adapter_states_are_kept_without_new_reports() -> None:
    world = up(model(*TWO))
    world.step(reports=says(model(*TWO), de=("Rejected", "too wide")))
    again = world.step(reports={})
    assert (states(again), listed(again)) == (["Ready", "Rejected"], ["tiny", "fr"])


def test_adapters_of_sleeping_model_are_listed_unless_rejected() -> None:
    world = asleep(model(*TWO))
    slept = world.step(reports={}, pods=(HEAD,))
    assert (states(slept), listed(slept)) == (["Asleep"] * 2, ["tiny", *TWO])
    world = up(model(*TWO))
    world.step(reports=says(model(*TWO), de=("Rejected", "too wide")))
    world.step(after=LONG, gateway=IDLE, reports={})
    assert gate(world.step(pods=(HEAD,)))[2] is not None
    slept = world.step()
    assert (states(slept), listed(slept)) == (["Asleep", "Rejected"], ["tiny", "fr"])


def test_adapter_stays_listed_when_gate_opens_before_its_report() -> None:
    """The gate opens when the base answers, possibly before the operator receives a report about adapters."""
    world = asleep(model("fr"))
    world.step(pods=(HEAD,))
    waking = world.step(gateway=view(held=1))
    assert (gate(waking)[1], listed(waking)) == ("Closed", ["tiny", "fr"])
    opened = world.step(pods=(HEAD, WORKER), ray_service=running(world), answers={"tiny": True})
    assert gate(opened)[1] == "Open"
    assert (states(opened), listed(opened)) == (["Pending"], ["tiny", "fr"])


def test_names_of_first_cluster_stay_listed_while_second_starts() -> None:
    world = up(model("fr"))
    world.step(reports=says(model("fr")))
    edit(world, {**model("fr"), "name": "small"})
    assert listed(world.step()) == ["small", "fr", "tiny", "fr"]


@pytest.mark.parametrize("written", [{"state": "Strange", "id": 3}, {"state": "Ready"}, {}])
def test_malformed_adapter_status_is_read_as_pending(written: dict[str, Any]) -> None:
    world = up(model("fr"))
    status = world.observed.manifest["status"]
    status["models"][0]["lora"] = [{"name": "fr", **written}]
    assert states(world.step()) == ["Pending"]


def test_adapter_states_are_unchanged_if_spec_is_invalid() -> None:
    world = up(model("fr"))
    world.step(reports=says(model("fr")))
    world.edit(manifest({**model("fr"), "accelerator": {"kind": "abacus"}}))
    assert adapters(world.step()) == {"fr": (AdapterState.READY, None)}
