"""Hypothesis strategies: any valid LLMService."""

from string import ascii_letters, digits
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from daybreak.api import validation
from daybreak.api.llmservice import InvalidSpec, LLMService

SECRET = "the-secret-of-the-hub"  # noqa: S105 - a Secret's name, by which tests find it again
COMMIT = "0123456789abcdef0123456789abcdef01234567"

_EDGE = ascii_letters + digits
_edges = st.sampled_from(_EDGE)
_model_names = st.one_of(
    st.sampled_from(["a", "A", "a.b", "a_b", "a/b", "Qwen/Qwen2.5-72B-Instruct", "x" * 96, "a-b", "A--B"]),
    st.builds("{}{}{}".format, _edges, st.text(f"{_EDGE}._/-", max_size=94), _edges),
)
_service_names = st.integers(1, 47).map(lambda length: ("qwen7-b" * 8)[:length].rstrip("-"))
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
        "head": st.fixed_dictionaries(
            {"resources": st.fixed_dictionaries({"cpu": _cores, "memory": _memory})}
        ),
    },
)


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    """An LLMService as a manifest; only its form is certain, rules across fields may refuse it."""
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
    """An LLMService that can be built."""
    manifest = draw(manifests())
    try:
        svc = LLMService.from_manifest(manifest)
    except InvalidSpec as error:
        raise AssertionError(f"the strategy draws what the API refuses: {error}") from error
    assume(not validation.problems(svc))
    return svc
