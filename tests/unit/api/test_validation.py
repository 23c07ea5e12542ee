"""Problems and notices of rules across fields: one sentence each, with path, numbers and nearest fix."""

from typing import Any

import pytest

from daybreak import versions
from daybreak.api.common import volume_names
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.validation import VOLUME_SOURCES, notices, problems
from tests.accepted_specs import TAKEN
from tests.specs import manifest, with_model, with_runtime

CACHE = {"name": "cache", "emptyDir": {}}


def read_message(whole: dict[str, Any]) -> tuple[str, ...]:
    return problems(LLMService.from_manifest(whole))


def one(whole: dict[str, Any]) -> str:
    (problem,) = read_message(whole)
    return problem


def models(*chosen: str) -> dict[str, Any]:
    return manifest(models=[{"name": name, "source": "hf://owner/model"} for name in chosen])


@pytest.mark.parametrize("taken", TAKEN.values(), ids=TAKEN.keys())
def test_valid_manifest_has_no_problems(taken: dict[str, Any]) -> None:
    assert read_message(taken) == ()


def test_engine_argument_problem_contains_path_of_its_model() -> None:
    chosen = models("one", "two")
    chosen["spec"]["models"][1]["engine"] = {"args": {"max_model_lenn": 64}}
    assert one(chosen) == (
        f"spec.models[1].engine.args.max_model_lenn: vLLM {versions.VLLM} has no such argument; "
        "did you mean max_model_len?"
    )


@pytest.mark.parametrize(
    "kind", ["H100", "A10", "L40S", "A100-80G", "AMD-Instinct-MI300X-OAM", "Intel-GPU-Max-1550"]
)
def test_accelerator_type_known_to_ray_is_accepted(kind: str) -> None:
    assert read_message(with_model(accelerator={"type": kind})) == ()


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("H1000", "did you mean H100?"),
        ("nvidia-h100", "leave it out"),
        # Ray knows these names, but with another resource than GPU (Apple has no Linux). No pod would fit.
        ("TPU-V5P", "leave it out"),
        ("Intel-GAUDI", "leave it out"),
        ("aws-neuron-core", "leave it out"),
        ("Ascend910B", "leave it out"),
        ("FURIOSA_RNGD", "leave it out"),
        ("MOBILINT_ARIES", "leave it out"),
        ("M3-Max", "leave it out"),
    ],
)
def test_accelerator_type_that_is_no_ray_gpu_is_rejected(kind: str, hint: str) -> None:
    problem = one(with_model(accelerator={"type": kind}))
    assert problem.startswith(f"spec.models[0].accelerator.type: Ray {versions.RAY} has no GPU {kind}; ")
    assert hint in problem


def test_target_above_max_ongoing_requests_is_rejected() -> None:
    whole = with_model(replicas={"max": 4, "targetOngoingRequests": 300}, serve={"maxOngoingRequests": 128})
    assert one(whole) == (
        "spec.models[0].replicas.targetOngoingRequests: 300 is never reached, since a replica takes at most "
        "128 (serve.maxOngoingRequests); use 128 or less"
    )


@pytest.mark.parametrize(
    "change", [{"replicas": {"min": 4}}, {"replicas": {"max": 1}}, {"replicas": {"max": 4}, "fixed": 2}]
)
def test_target_is_ignored_for_fixed_replicas(change: dict[str, Any]) -> None:
    replicas = {"targetOngoingRequests": 300} | change["replicas"]
    whole = with_model(replicas=replicas, serve={"maxOngoingRequests": 128})
    if "fixed" in change:
        whole["spec"]["replicas"] = change["fixed"]
    assert read_message(whole) == ()


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"memory": "16"}, "spec.models[0].resources.memory: 16 is less than 1Mi"),
        ({"sharedMemory": "500m"}, "spec.models[0].resources.sharedMemory: 500m is less than 150Mi"),
        ({"sharedMemory": "128Mi"}, "spec.models[0].resources.sharedMemory: 128Mi is less than 150Mi"),
        ({"cpu": 0}, "spec.models[0].resources.cpu: 0 is no request"),
        ({"memory": "8Gi", "sharedMemory": "8Gi"}, "8Gi counts against memory (8Gi)"),
        ({"memory": "8Gi", "sharedMemory": "9Gi"}, "use at most 4096Mi"),
    ],
)
def test_implausible_resources_are_rejected(resources: dict[str, Any], words: str) -> None:
    assert words in one(with_model(resources=resources))


def test_too_small_head_memory_and_body_limit_are_rejected() -> None:
    assert "spec.runtime.head.resources.memory" in one(with_runtime(head={"resources": {"memory": "4"}}))
    assert "spec.hold.maxBodyBytes" in one(manifest(hold={"maxBodyBytes": 10}))


def test_fewer_cores_than_gpus_are_accepted() -> None:
    assert read_message(with_model(resources={"cpu": "300m"}, parallelism={"tensor": 4})) == ()


def test_model_names_with_same_serve_deployment_are_rejected() -> None:
    assert one(models("org/model", "org--model")) == (
        "spec.models[1].name: org--model and org/model are both LLMServer:org--model to Ray Serve; rename one"
    )
    assert len(read_message(models("a.b", "a_b", "a/b"))) == 1


@pytest.mark.parametrize(
    ("version", "fine"),
    [(versions.RAY_MINIMUM, True), (versions.RAY, True), ("2.9.0", False), ("1.99.99", False)],
)
def test_ray_versions_are_compared_as_numbers(version: str, fine: bool) -> None:
    whole = read_message(with_runtime(rayVersion=version))
    assert (whole == ()) is fine
    assert all(versions.RAY_MINIMUM in problem for problem in whole)


@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        ({"volumeMounts": [{"name": "cach", "mountPath": "/c"}], "volumes": [CACHE]}, "did you mean cache?"),
        (
            {"volumeMounts": [{"name": "zoo", "mountPath": "/c"}]},
            "spec.runtime.volumes has no zoo; add it there",
        ),
        ({"volumes": [{"name": "cache"}]}, "spec.runtime.volumes[0]: cache has no source"),
        ({"serviceAccountName": "a" * 51}, "has 51 characters, of which KubeRay keeps 50"),
        ({"volumes": [CACHE | {"nfs": {}}]}, "cache has 2 sources (emptyDir, nfs)"),
        ({"volumes": [{"name": "a", "persistentVolumeClam": {}}]}, "did you mean persistentVolumeClaim?"),
        ({"volumes": [{"name": "daybreak-shm", "emptyDir": {}}]}, "volume of Daybreak's own"),
        (
            {"volumes": [{"name": volume_names.RESERVED_VOLUMES[0], "emptyDir": {}}]},
            "volume of Daybreak's own",
        ),
        ({"volumes": [CACHE, CACHE]}, "spec.runtime.volumes[1].name: cache occurs 2 times"),
        (
            {"env": [{"name": "A"}, {"name": "B"}, {"name": "A"}]},
            "spec.runtime.env[2].name: A occurs 2 times",
        ),
        ({"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}, "spec.runtime.imagePullSecrets[1].name"),
        (
            {"volumes": [CACHE], "volumeMounts": [{"name": "cache", "mountPath": p} for p in ("/c", "/c/")]},
            "spec.runtime.volumeMounts[1].mountPath: /c occurs 2 times",
        ),
        (
            {"volumes": [CACHE], "volumeMounts": [{"name": "cache", "mountPath": "/c", "subPath": "a/../b"}]},
            "spec.runtime.volumeMounts[0].subPath: a path must not contain '..'",
        ),
        (
            {"volumes": [CACHE], "volumeMounts": [{"name": "cache", "mountPath": "/models/chat/"}]},
            "spec.runtime.volumeMounts[0].mountPath: /models/chat/ is where the weights of chat appear",
        ),
    ],
)
def test_invalid_runtime_setting_is_rejected(runtime: dict[str, Any], words: str) -> None:
    assert words in one(with_runtime(**runtime))


@pytest.mark.parametrize("source", VOLUME_SOURCES)
def test_every_kubernetes_volume_source_is_accepted(source: str) -> None:
    assert read_message(with_runtime(volumes=[{"name": "a", source: {}}])) == ()


def test_all_problems_are_reported_together() -> None:
    whole = with_model(engine={"args": {"zzzzzz": 1, "port": 80}}, resources={"cpu": 0})
    whole["spec"]["runtime"] = {"rayVersion": "2.9.0"}
    assert len(read_message(whole)) == 3  # another Ray may know `zzzzzz`


def test_sleep_and_hold_without_gateway_produce_notice() -> None:
    quiet = LLMService.from_manifest(manifest())
    assert notices(quiet, gateway=False) == ()
    sleepy = LLMService.from_manifest(manifest(sleep={}, hold={}))
    (notice,) = notices(sleepy, gateway=False)
    assert notice.startswith("spec.sleep and spec.hold without effect")
    assert notices(sleepy, gateway=True) == ()


@pytest.mark.parametrize(
    ("routing", "fields"),
    [
        ({"policy": "Session", "session": {"virtualNodes": 7}}, ["session.virtualNodes"]),
        ({"policy": "Session", "session": {"fallbackReplicas": 7}}, []),
        (
            {"policy": "Prefix", "prefix": {"matchRateThreshold": 0.5, "evictionTargetChars": 9}},
            ["prefix.matchRateThreshold", "prefix.evictionTargetChars"],
        ),
        ({"policy": "Prefix", "prefix": {"imbalancedThreshold": 7}}, []),
        ({"policy": "RoundRobin"}, []),
    ],
)
def test_router_settings_that_gateway_ignores_produce_notice(
    routing: dict[str, Any], fields: list[str]
) -> None:
    whole = with_model(routing=routing)
    found = notices(LLMService.from_manifest(whole), gateway=True)
    assert [field for field in fields if field not in "".join(found)] == []
    assert len(found) == (1 if fields else 0)
    assert notices(LLMService.from_manifest(whole), gateway=False) == ()
    whole["spec"]["runtime"] = {"directIngress": False}
    assert notices(LLMService.from_manifest(whole), gateway=True) == ()


def test_session_header_variable_of_serve_produces_notice() -> None:
    whole = with_model(routing={"policy": "Session"})
    whole["spec"]["runtime"] = {"env": [{"name": "RAY_SERVE_SESSION_ID_HEADER_KEY", "value": "x-user"}]}
    (notice,) = notices(LLMService.from_manifest(whole), gateway=True)
    assert "x-session-id" in notice


def test_unchecked_engine_arguments_of_other_ray_produce_notice() -> None:
    whole = with_model(engine={"args": {"max_model_len": 64}})
    whole["spec"]["runtime"] = {"rayVersion": "2.61.0"}
    (notice,) = notices(LLMService.from_manifest(whole), gateway=True)
    assert "engine arguments are not checked" in notice
    assert "2.61.0" in notice
    whole["spec"]["runtime"] = {"rayVersion": versions.RAY}
    assert notices(LLMService.from_manifest(whole), gateway=True) == ()


def test_loader_that_needs_custom_image_produces_notice() -> None:
    whole = with_model(engine={"args": {"load_format": "runai_streamer"}})
    (notice,) = notices(LLMService.from_manifest(whole), gateway=True)
    assert "spec.models[0].engine.args.load_format" in notice
    assert "runai-model-streamer" in notice
    whole["spec"]["runtime"] = {"image": "mine:1"}
    assert notices(LLMService.from_manifest(whole), gateway=True) == ()


@pytest.mark.parametrize("name", ["VLLM_API_KEY", "DAYBREAK_HTTP_PORT"])
def test_variable_that_blocks_gateway_is_rejected(name: str) -> None:
    env = [{"name": "FINE", "value": "1"}, {"name": name, "value": "1"}]
    assert one(with_runtime(env=env)).startswith(f"spec.runtime.env[1]: {name}: ")
    assert read_message(with_runtime(env=env, directIngress=False)) == ()
