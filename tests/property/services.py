"""Hypothesis strategies: any valid LLMService."""

from string import ascii_letters, digits
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from daybreak.api.llmservice import validation
from daybreak.api.llmservice.definition import NAME_LIMIT, LLMService
from daybreak.api.schema.custom_object import InvalidSpec

SECRET = "the-secret-of-the-hub"  # noqa: S105 - a Secret's name, by which tests find it again
COMMIT = "0123456789abcdef0123456789abcdef01234567"

_EDGE = ascii_letters + digits
_edges = st.sampled_from(_EDGE)
_model_names = st.one_of(
    st.sampled_from(["a", "A", "a.b", "a_b", "a/b", "Qwen/Qwen2.5-72B-Instruct", "x" * 96, "a-b", "A--B"]),
    st.builds("{}{}{}".format, _edges, st.text(f"{_EDGE}._/-", max_size=94), _edges),
)
_service_names = st.integers(1, NAME_LIMIT).map(lambda length: ("qwen7-b" * 8)[:length].rstrip("-"))
_durations = st.one_of(
    st.integers(1, 7200).map("{}s".format),
    st.integers(1, 120).map("{}m".format),
    st.integers(1, 99999).map("{}ms".format),
)
_cores = st.one_of(st.integers(1, 64).map(str), st.integers(100, 8000).map("{}m".format))
_memory = st.integers(2, 512).map("{}Gi".format)
_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text(max_size=12)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_engine_args = st.fixed_dictionaries(
    {},
    optional={
        "max_model_len": st.integers(1, 10**6),
        "gpu_memory_utilization": st.floats(0.1, 1.0),
        "disable_log_stats": st.booleans(),
        "tokenizer_mode": st.sampled_from(["auto", "slow"]),
        "additional_config": st.dictionaries(st.text(max_size=8), _json, max_size=4),
    },
)
_tolerations = st.lists(
    st.sampled_from([{"operator": "Exists"}, {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]),
    max_size=2,
)


@st.composite
def _replicas(draw: st.DrawFn) -> dict[str, Any]:
    fewest = draw(st.integers(0, 20))
    most = draw(st.one_of(st.none(), st.integers(max(fewest, 1), 40)))
    found: dict[str, Any] = {"min": fewest, "targetOngoingRequests": draw(st.integers(1, 200))}
    if most is not None:
        found["max"] = most
        if draw(st.booleans()):
            found["initial"] = draw(st.integers(fewest, most))
    for name in ("upscaleDelay", "downscaleDelay", "downscaleToZeroDelay", "lookBackPeriod"):
        if draw(st.booleans()):
            found[name] = draw(_durations)
    return found


_caches = st.sampled_from(
    [
        {"claimName": "claim"},
        {"size": "1Gi"},
        {"size": "1Gi", "accessMode": "ReadWriteOnce", "storageClassName": "fast"},
    ]
)


@st.composite
def _models(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": draw(_model_names),
        "engine": {"args": draw(_engine_args)},
        "accelerator": {"kind": kind, "tolerations": draw(_tolerations)},
        "resources": draw(st.fixed_dictionaries({}, optional={"cpu": _cores, "memory": _memory})),
        "replicas": draw(_replicas()),
        "serve": draw(
            st.fixed_dictionaries(
                {"maxOngoingRequests": st.integers(200, 1000)},
                optional={"gracefulShutdownTimeout": _durations, "healthCheckPeriod": _durations},
            )
        ),
    }
    if draw(st.booleans()):
        found["podTemplate"] = draw(_templates)
    if kind == "gpu":
        found["parallelism"] = {"tensor": draw(st.integers(1, 16)), "pipeline": draw(st.integers(1, 4))}
        found["placement"] = draw(st.sampled_from([None, "PACK", "STRICT_PACK"]))
        found["accelerator"]["type"] = draw(st.sampled_from([None, "H100", "A10G"]))
    match draw(st.sampled_from(["hf", "hf+token", "hf+cache", "s3", "gs", "pvc", "image", "file"])):
        case "hf":
            found["source"] = "hf://owner/name"
        case "hf+token":
            found["source"] = "hf://owner/name"
            found["revision"] = COMMIT
            found["trustRemoteCode"] = draw(st.booleans())
            found["token"] = {"secretKeyRef": {"name": SECRET, "key": "token"}}
        case "hf+cache":
            found["source"] = "hf://owner/name"
            found["token"] = {"secretKeyRef": {"name": SECRET, "key": "token"}}
            found["cache"] = draw(_caches)
        case "s3" | "gs" as scheme:
            found["source"] = f"{scheme}://bucket/prefix"
        case "pvc":
            found["source"] = draw(st.sampled_from(["pvc://claim", "pvc://claim/a/b"]))
        case "image":
            found["source"] = draw(st.sampled_from(["image://registry.example.com/w:1#a", "image://w:1"]))
        case _:
            found["source"] = "file:///opt/weights"
    return found


_HELPER = {"name": "helper", "image": "helper:1", "resources": {"requests": {"cpu": "100m"}}}
_SPREAD = {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 1, "labelSelector": {}}
_ray_containers = st.fixed_dictionaries(
    {"name": st.just("ray")},
    optional={
        "env": st.just([{"name": "OWN", "value": "8"}, {"name": "NCCL_DEBUG", "value": "INFO"}]),
        "resources": st.just({"limits": {"rdma/hca": 1}}),
        "securityContext": st.sampled_from([{"privileged": True}, {"capabilities": {"add": ["IPC_LOCK"]}}]),
        "volumeMounts": st.sampled_from([["/scratch"], ["/var/cache/daybreak", "/dev/shm"]]).map(  # noqa: S108
            lambda paths: [{"name": "scratch", "mountPath": path} for path in paths]
        ),
    },
)
_templates: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {}, optional={"labels": st.just({"team": "a"}), "annotations": st.just({"note": "b"})}
        ),
        "spec": st.fixed_dictionaries(
            {
                "volumes": st.just([{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}]),
                "containers": st.one_of(
                    st.just([]),
                    st.just([_HELPER]),
                    _ray_containers.map(lambda ray: [ray]),
                    _ray_containers.map(lambda ray: [_HELPER, ray]),
                ),
            },
            optional={
                "runtimeClassName": st.just("nvidia"),
                "schedulerName": st.just("volcano"),
                "nodeSelector": st.just({"rack": "a"}),
                "tolerations": _tolerations,
                "topologySpreadConstraints": st.just([_SPREAD]),
                "initContainers": st.just([{"name": "first", "image": "first:1"}]),
                "securityContext": st.just({"runAsUser": 5}),
                "hostNetwork": st.booleans(),
            },
        ),
    }
)
"""Fields that a user may add to pods."""
_head_templates: st.SearchStrategy[Any] = _templates.filter(lambda one: "hostNetwork" not in one["spec"])


_heads: st.SearchStrategy[Any] = st.builds(
    lambda sized, more: {**sized, **more},
    st.fixed_dictionaries({"resources": st.fixed_dictionaries({"cpu": _cores, "memory": _memory})}),
    st.fixed_dictionaries({}, optional={"podTemplate": _head_templates}),
)

_runtime = st.fixed_dictionaries(
    {},
    optional={
        "image": st.just("registry.example.com/ray:1"),
        "serviceAccountName": st.just("identity"),
        "compileCache": st.just({"claimName": "compiled"}),
        "idleTimeout": _durations,
        "env": st.lists(
            st.sampled_from(["RAY_USAGE_STATS_ENABLED", "OWN", "XDG_CACHE_HOME", "OMP_NUM_THREADS"]),
            unique=True,
            max_size=4,
        ).map(lambda names: [{"name": name, "value": "7"} for name in names]),
        "head": _heads,
    },
)


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    """Return an LLMService's manifest: its form is valid, but rules across fields may reject it."""
    kind = draw(st.sampled_from(["gpu", "cpu"]))
    spec: dict[str, Any] = {
        "models": draw(st.lists(_models(kind), min_size=1, max_size=3, unique_by=lambda one: one["name"])),
        "runtime": draw(_runtime),
    }
    if draw(st.booleans()):
        spec["replicas"] = draw(st.integers(0, 10))
    metadata = {"name": draw(_service_names), "namespace": "team", "uid": "a-uid", "generation": 1}
    return {"metadata": metadata, "spec": spec}


@st.composite
def services(draw: st.DrawFn) -> LLMService:
    """Return an LLMService that can be built."""
    manifest = draw(manifests())
    try:
        svc = LLMService.from_manifest(manifest)
    except InvalidSpec as error:
        raise AssertionError(f"the strategy draws what the API refuses: {error}") from error
    assume(not validation.problems(svc))
    return svc
