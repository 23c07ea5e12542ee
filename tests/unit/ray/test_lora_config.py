"""LoRA adapters in the built objects: capacity at the start, and adapters that change in place."""

from typing import Any

import yaml

from daybreak.kinds.llmservice.objects.desired import desired
from daybreak.ray.serve.adapter_origin import identity
from daybreak.ray.serve.serve_config import configuration, serve_config
from tests.unit.ray.services import PLATFORM, model, service

TOKEN = {"secretKeyRef": {"name": "hub", "key": "token"}}


def with_lora(*adapters: dict[str, Any], **fields: Any) -> Any:
    """Return a service with one model that has these adapters."""
    lora = fields.pop("lora", {})
    return service(model(lora={"adapters": list(adapters), **lora}, **fields))


def adapter(name: str = "a", source: str = "s3://bucket/a", **fields: Any) -> dict[str, Any]:
    return {"name": name, "source": source, **fields}


def application(svc: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(serve_config(svc.workload))["applications"][0]
    return found


def engine_kwargs(svc: Any) -> dict[str, Any]:
    found: dict[str, Any] = application(svc)["args"]["llm_configs"][0]["engine_kwargs"]
    return found


def read_report(svc: Any) -> Any:
    """Return the configuration that the model's replicas receive in place."""
    return application(svc)["deployments"][1].get("user_config")


def pod(svc: Any) -> dict[str, Any]:
    """Return the spec of the worker pods."""
    ray = next(item for item in desired(svc, PLATFORM, None) if item["kind"] == "RayService")
    found: dict[str, Any] = ray["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]
    return found


def test_config_without_lora_has_no_lora_settings() -> None:
    svc = service()
    assert not any("lora" in name for name in engine_kwargs(svc))
    assert read_report(svc) is None


def test_lora_capacity_follows_spec_and_engine_args() -> None:
    room = {
        name: value
        for name, value in engine_kwargs(with_lora(lora={"maxLoaded": 20, "maxRank": 64})).items()
        if "lora" in name
    }
    assert room == {"enable_lora": True, "max_loras": 20, "max_cpu_loras": 20, "max_lora_rank": 64}
    args = {"args": {"max_cpu_loras": 40}}
    assert engine_kwargs(with_lora(engine=args))["max_cpu_loras"] == 40


def test_empty_adapter_list_is_sent_to_replicas() -> None:
    assert read_report(with_lora()) == {"lora": {"adapters": []}}


def test_each_adapter_source_is_translated_for_the_runtime() -> None:
    svc = with_lora(
        adapter("a", "hf://owner/a", revision="main", token=TOKEN),
        adapter("b", "s3://bucket/b/"),
        adapter("c", "file:///opt/c"),
        adapter("d", "pvc://claim/d"),
        adapter("e", "image://registry.example.com/e:1#x"),
    )
    entries = {each.pop("name"): each for each in read_report(svc)["lora"]["adapters"]}
    ids = {each.name: identity(each) for each in svc.spec.models[0].lora.adapters}
    assert {name: each.pop("id") for name, each in entries.items()} == ids
    assert len(set(ids.values())) == 5
    variable = entries["a"].pop("token")
    assert entries["a"] == {"repository": "owner/a", "revision": "main"}
    assert entries["b"] == {"bucket": "s3://bucket/b"}
    assert entries["c"] == {"path": "/opt/c"}
    mounts = {each["name"]: each["mountPath"] for each in pod(svc)["containers"][0]["volumeMounts"]}
    volumes = {each["name"]: each for each in pod(svc)["volumes"] if "adapters" in each["name"]}
    claim, image = (
        next(each for each in volumes.values() if kind in each) for kind in ("persistentVolumeClaim", "image")
    )
    assert claim["persistentVolumeClaim"] == {"claimName": "claim", "readOnly": True}
    assert entries["d"] == {"path": f"{mounts[claim['name']]}/d", "copy": True}
    assert entries["e"] == {"path": f"{mounts[image['name']]}/x"}
    env = {each["name"]: each for each in pod(svc)["containers"][0]["env"]}
    assert env[variable]["valueFrom"] == {"secretKeyRef": {"name": "hub", "key": "token"}}


def test_adapter_change_restarts_no_replica_or_pod() -> None:
    """Replicas keep running, because their part of the configuration stays the same. So do pods."""
    before = with_lora(adapter("a"), adapter("b", "pvc://claim/b"), adapter("c", "hf://o/c", token=TOKEN))
    after = with_lora(
        adapter("a", "s3://bucket/a2"),
        adapter("x", "gs://bucket/x"),
        adapter("b2", "pvc://claim/other"),
        adapter("d", "hf://o/d", token=TOKEN),
    )
    assert configuration(before.workload) == configuration(after.workload)
    assert serve_config(before.workload) != serve_config(after.workload)
    assert pod(before) == pod(after)


def test_adapter_on_a_new_pvc_changes_the_pods() -> None:
    assert pod(with_lora(adapter("a"))) != pod(with_lora(adapter("a"), adapter("b", "pvc://claim/b")))


def test_adapter_identity_depends_on_source_and_not_on_name() -> None:
    one, two, same = (
        identity(with_lora(each).spec.models[0].lora.adapters[0])
        for each in (adapter(), adapter(source="s3://bucket/b"), adapter("other"))
    )
    assert one != two
    assert one == same
