"""Properties of the objects of any service."""

import copy
import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from daybreak.api.common import names
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.pods.pod_template import PodTemplate
from daybreak.api.schema.scalars import parse_quantity
from daybreak.kinds.llmservice.objects.desired import desired, group_bounds
from daybreak.platform import Platform
from tests.property.services import SECRET, services

PLATFORM = Platform(ray_image="ray:1", ray_cpu_image="ray-cpu:1")
DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"


def ray_service(svc: LLMService) -> Any:
    """Return the spec of the RayService."""
    return desired(svc, PLATFORM, None)[-1]["spec"]


def groups(svc: LLMService) -> list[Any]:
    """Return the worker groups of the Ray cluster."""
    found: list[Any] = ray_service(svc)["rayClusterConfig"]["workerGroupSpecs"]
    return found


def llm_configs(svc: LLMService) -> list[Any]:
    """Serve LLM's configuration of each model."""
    found: list[Any] = yaml.safe_load(ray_service(svc)["serveConfigV2"])["applications"][0]["args"][
        "llm_configs"
    ]
    return found


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of a manifest that holds no other, with its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, f"{path}[]")
    else:
        yield path, value


@given(services())
def test_equal_services_build_identical_objects(svc: LLMService) -> None:
    again = dataclasses.replace(svc, spec=type(svc.spec).model_validate(svc.spec.model_dump(by_alias=True)))
    assert json.dumps(desired(svc, PLATFORM, "a")) == json.dumps(desired(again, PLATFORM, "a"))


@given(services())
def test_building_objects_leaves_service_unchanged(svc: LLMService) -> None:
    before = copy.deepcopy(svc)
    objects = desired(svc, PLATFORM, "a")
    # The receiver may change the objects: this changes neither the service nor other objects.
    for manifest in objects:
        spoil(manifest)
    assert svc == before
    assert desired(svc, PLATFORM, "a") == desired(before, PLATFORM, "a")


def spoil(value: Any) -> None:
    """Write into every object and list of a manifest; one that occurs twice fails."""
    if isinstance(value, dict):
        assert "spoiled" not in value
        for inner in list(value.values()):
            spoil(inner)
        value["spoiled"] = True
    elif isinstance(value, list):
        assert "spoiled" not in value
        for inner in list(value):
            spoil(inner)
        value.append("spoiled")


@given(services())
def test_names_and_labels_are_within_their_limits(svc: LLMService) -> None:
    objects = desired(svc, PLATFORM, None)
    for manifest in objects:
        name = manifest["metadata"]["name"]
        assert re.fullmatch(DNS_LABEL, name)
        assert len(name) <= 63
        assert all(
            len(value) <= 63 and re.fullmatch(LABEL_VALUE, value)
            for value in manifest["metadata"]["labels"].values()
        )
    assert len(objects[-1]["metadata"]["name"]) <= 47
    found = groups(svc)
    assert len({group["groupName"] for group in found}) == len(svc.spec.models)
    for group in found:
        assert re.fullmatch(DNS_LABEL, group["groupName"])
        assert len(group["groupName"]) <= names.GROUP_NAME_LIMIT
        labels = group["template"]["metadata"]["labels"].values()
        assert all(len(value) <= 63 and re.fullmatch(LABEL_VALUE, value) for value in labels)


@given(services())
def test_no_object_holds_a_null_or_an_empty_name(svc: LLMService) -> None:
    for manifest in desired(svc, PLATFORM, "a"):
        for path, value in leaves(manifest):
            assert value is not None, path
            assert not path.endswith((".name", ".image", ".mountPath")) or value, path


@given(services())
def test_quantities_are_valid(svc: LLMService) -> None:
    for path, value in leaves(ray_service(svc)):
        if ".resources." in path or path.endswith(".sizeLimit"):
            assert parse_quantity(str(value)) >= 0, path


@given(services())
def test_pod_resources_equal_its_bundles_plus_replica_actor(svc: LLMService) -> None:
    for model, group, config in zip(svc.spec.models, groups(svc), llm_configs(svc), strict=True):
        bundle = config["placement_group_config"]["bundle_per_worker"]
        count = model.parallelism.tensor * model.parallelism.pipeline
        pods = 1
        if config["placement_group_config"]["strategy"] == "PACK":
            pods = model.parallelism.pipeline
        assert count % pods == 0
        offered = {name: parse_quantity(quantity) for name, quantity in group["resources"].items()}
        requested = {name: each * count // pods for name, each in bundle.items()}
        requested["CPU"] += 1  # Ray adds the replica actor to the first bundle.
        # Exactly: a pod with room for a bundle more would take part of another replica.
        assert all(offered[name] == amount for name, amount in requested.items())
        limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
        devices = limits.get(model.accelerator.resource, "0")
        assert parse_quantity(devices) == offered["GPU"] == requested.get("GPU", 0)
        if (kind := config.get("accelerator_type")) is not None:
            assert offered[f"accelerator_type:{kind}"] >= 1


@given(services())
def test_a_bundle_fits_only_its_own_group(svc: LLMService) -> None:
    found = groups(svc)
    for own, config in enumerate(llm_configs(svc)):
        bundle = config["placement_group_config"]["bundle_per_worker"]
        fitting = [
            number
            for number, group in enumerate(found)
            if all(parse_quantity(group["resources"].get(name, "0")) >= each for name, each in bundle.items())
        ]
        assert fitting == [own]


@given(services())
def test_replica_bounds_agree_between_worker_groups_and_serve(svc: LLMService) -> None:
    bounds = group_bounds(svc)
    app = yaml.safe_load(ray_service(svc)["serveConfigV2"])["applications"][0]
    by_name = {options["name"]: options["autoscaling_config"] for options in app["deployments"]}
    for model, group in zip(svc.spec.models, groups(svc), strict=True):
        fewest, most = bounds[group["groupName"]]
        assert (group["minReplicas"], group["maxReplicas"]) == (fewest, most)
        assert 0 <= fewest <= group["replicas"] <= most
        assert most >= 1
        scaling = by_name[names.serve_deployment(model.name)]
        assert fewest * scaling["max_replicas"] == most * scaling["min_replicas"]
        initial = scaling.get("initial_replicas", scaling["min_replicas"])
        assert scaling["min_replicas"] <= initial <= scaling["max_replicas"]


@given(services())
def test_shared_memory_holds_the_object_store(svc: LLMService) -> None:
    cluster = ray_service(svc)["rayClusterConfig"]
    for group in [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]:
        [size] = [
            volume["emptyDir"]["sizeLimit"]
            for volume in group["template"]["spec"]["volumes"]
            if volume.get("emptyDir") and volume["name"] != "scratch"
        ] or [None]
        if size is None:
            # A person has mounted something else there.
            continue
        assert int(group["rayStartParams"]["object-store-memory"]) < parse_quantity(size)


@given(services())
def test_secrets_are_named_in_container_environments_only(svc: LLMService) -> None:
    spec = ray_service(svc)
    assert SECRET not in spec["serveConfigV2"]
    for manifest in desired(svc, PLATFORM, "a"):
        for path, value in leaves(manifest):
            if value == SECRET:
                assert path.endswith(".env[].valueFrom.secretKeyRef.name"), path
                assert ".workerGroupSpecs[]" in path, path


@given(services())
def test_every_mount_has_volume_and_unique_path(svc: LLMService) -> None:
    cluster = ray_service(svc)["rayClusterConfig"]
    for group in [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]:
        pod = group["template"]["spec"]
        volumes = [volume["name"] for volume in pod["volumes"]]
        assert len(set(volumes)) == len(volumes)
        mounts = pod["containers"][0]["volumeMounts"]
        assert {mount["name"] for mount in mounts} <= set(volumes)
        paths = [mount["mountPath"] for mount in mounts]
        assert len(set(paths)) == len(paths)
        variables = [variable["name"] for variable in pod["containers"][0]["env"]]
        assert len(set(variables)) == len(variables)


@given(services())
def test_engine_arguments_are_passed_on_unchanged(svc: LLMService) -> None:
    for model, config in zip(svc.spec.models, llm_configs(svc), strict=True):
        kwargs = config.get("engine_kwargs", {})
        for name, value in model.engine.args.items():
            assert kwargs[name] == value


@given(services(), st.sampled_from([None, "llama-abcde"]))
def test_ray_service_size_is_bounded_for_any_service(svc: LLMService, active: str | None) -> None:
    # etcd takes 1.5 MiB; a thousand services should stay small in the operator's memory, too.
    size = len(json.dumps(desired(svc, PLATFORM, active)[-1]))
    written = svc.spec.model_dump_json(by_alias=True, exclude_unset=True)
    assert size < 4000 + 4500 * len(svc.spec.models) + 2 * len(written)


def templates(svc: LLMService) -> list[tuple[PodTemplate | None, Any]]:
    """Return the user's additions to each group's pods, and the group."""
    cluster = ray_service(svc)["rayClusterConfig"]
    of_models = [model.pod_template for model in svc.spec.models]
    return [
        (svc.spec.runtime.head.pod_template, cluster["headGroupSpec"]),
        *zip(of_models, cluster["workerGroupSpecs"], strict=True),
    ]


def without_templates(svc: LLMService) -> LLMService:
    """Return the service with nothing added to its pods."""
    head = svc.spec.runtime.head.model_copy(update={"pod_template": None})
    update = {
        "models": [model.model_copy(update={"pod_template": None}) for model in svc.spec.models],
        "runtime": svc.spec.runtime.model_copy(update={"head": head}),
    }
    return dataclasses.replace(svc, spec=svc.spec.model_copy(update=update))


OWNED = ("serviceAccountName", "automountServiceAccountToken", "terminationGracePeriodSeconds")
OWNED_OF_RAY = ("name", "image", "imagePullPolicy", "ports")


@given(services())
def test_pod_template_cannot_change_fields_that_daybreak_owns(svc: LLMService) -> None:
    plain = templates(without_templates(svc))
    for (_, group), (_, before) in zip(templates(svc), plain, strict=True):
        assert {**group, "template": None} == {**before, "template": None}
        pod, own = group["template"], before["template"]
        assert own["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
        for field in OWNED:
            assert pod["spec"][field] == own["spec"][field]
        ray, bare = pod["spec"]["containers"][0], own["spec"]["containers"][0]
        for field in OWNED_OF_RAY:
            assert ray[field] == bare[field]
        for kind in ("requests", "limits"):
            assert bare["resources"][kind].items() <= ray["resources"][kind].items()
        names_before = {each["name"] for each in bare["env"]}
        assert names_before <= {each["name"] for each in ray["env"]}


@given(services())
def test_pod_template_additions_are_in_built_pods(svc: LLMService) -> None:
    for template, group in templates(svc):
        if template is None:
            continue
        pod, written = group["template"], template.written()
        assert template.metadata.labels.items() <= pod["metadata"]["labels"].items()
        assert template.metadata.annotations.items() <= pod["metadata"].get("annotations", {}).items()
        containers = {each["name"]: each for each in pod["spec"]["containers"]}
        assert len(containers) == len(pod["spec"]["containers"])
        for each in written.get("containers", ()):
            found = pod["spec"]["containers"][0] if each["name"] == "ray" else containers[each["name"]]
            for name in ("env", "volumeMounts"):
                assert all(entry in found[name] for entry in each.get(name, ()))
        for name in ("runtimeClassName", "schedulerName", "hostNetwork", "topologySpreadConstraints"):
            assert pod["spec"].get(name) == written.get(name)
        assert all(each in pod["spec"]["tolerations"] for each in written.get("tolerations", ()))
        assert all(each in pod["spec"]["volumes"] for each in written["volumes"])
