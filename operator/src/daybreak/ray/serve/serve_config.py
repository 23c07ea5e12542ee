"""Ray Serve's configuration of a service: `serveConfigV2` of the RayService, as YAML text.

The configuration has two parts. `args` defines the application: a change there rebuilds the application and
restarts every replica. `deployments` defines its operation: Serve applies a change there in place, without
effect on running replicas. Therefore every setting that may change without a restart is in `deployments`,
from the first configuration on, and nowhere else.
"""

import hashlib
import json
from typing import Any

import yaml

from daybreak.api.common import names
from daybreak.api.ray.model import AcceleratorKind, Model
from daybreak.api.ray.workload import RayWorkload
from daybreak.ray import ports
from daybreak.ray.inputs.weights import Weights, weights
from daybreak.ray.quantities import as_seconds, plain
from daybreak.ray.serve import ingress, lora_config, request_router
from daybreak.ray.serve.replica_range import replica_range
from daybreak.scheduling.replica_size import bundle, placement

IMPORT_PATH = "ray.serve.llm:build_openai_app"
SERVER_CLASS = "daybreak_runtime.llm:LLMServer"
"""Ray Serve LLM's server, extended to accept requests on a separate port. Serve names the deployments after
the class, so its last name is that of Ray's own class."""
INGRESS_CLASS = "daybreak_runtime.llm.ingress:OpenAiIngress"
"""Ray Serve LLM's ingress, extended to accept model names with a colon."""
_TARGET_ONGOING_REQUESTS = 16
NO_MEDIA_DOMAIN = "media-urls-are-off.invalid"
"""Default of the only domain from which the engine may fetch images, audio and video; it cannot exist (RFC
2606). Without it the engine fetches every URL in a request, from inside the cluster; an empty list would have
the same effect."""
KEEP_ALIVE_SECONDS = 90
"""Time in seconds for which Serve's proxies keep an idle client connection. It equals Serve's default, and is
explicit because the lifetime of an old cluster after an update depends on it. Serve cannot change it while it
runs."""

HTTP_OPTIONS = {
    "host": "0.0.0.0",  # noqa: S104 - Serve listens in the pod; the NetworkPolicy decides who gets there
    "port": ports.SERVE,
    "keep_alive_timeout_s": KEEP_ALIVE_SECONDS,
}
"""Address at which Serve's proxies listen."""

# The C emitter is ten times faster; both write the same text.
_FastDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_FastLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Dumper(_FastDumper):  # type: ignore[misc]  # the C emitter ships no type hints
    """Writes repeated values in full, without YAML anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_RAY_ACCELERATOR_NAMES = {"A10": "A10G"}
"""Names that Ray Serve LLM replaces before it requests the accelerator's resource."""


def serve_config(workload: RayWorkload) -> str:
    """Return the configuration as YAML, byte-identical for equal specs, because KubeRay compares the text."""
    document = _restarting(workload)
    document["applications"][0]["deployments"] = _deployments(workload)
    return written(document)


def with_numbers(before: str, workload: RayWorkload) -> str:
    """Return a configuration of another operator version with the currently desired deployments.

    The text is unchanged if the deployments match already. The part whose change restarts replicas stays.
    """
    desired = {each["name"]: each for each in _deployments(workload)}
    document = yaml.load(before, Loader=_FastLoader)  # noqa: S506 - the safe loader, in C
    application = document["applications"][0]
    deployments = [desired.get(each["name"], each) for each in application["deployments"]]
    if deployments == application["deployments"]:
        return before
    application["deployments"] = deployments
    return written(document)


def written(document: Any) -> str:
    """Return a configuration as YAML, byte-identical for equal ones, because KubeRay compares the text."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return text


def _deployments(workload: RayWorkload) -> list[dict[str, Any]]:
    return [
        ingress.scaling(workload.runtime.head.resources),
        *(model_deployment(workload, model) for model in workload.models),
    ]


def configuration(workload: RayWorkload) -> str:
    """Return the digest of the part of the configuration whose change restarts replicas."""
    return hashlib.sha256(json.dumps(_restarting(workload), sort_keys=True).encode()).hexdigest()[:12]


def _restarting(workload: RayWorkload) -> dict[str, Any]:
    """Return the configuration without deployments, such as replica bounds, which Serve changes in place."""
    return {
        "proxy_location": "EveryNode",
        "http_options": HTTP_OPTIONS,
        "applications": [
            {
                "name": names.APPLICATION,
                "route_prefix": "/",
                "import_path": IMPORT_PATH,
                "args": {
                    "llm_configs": [llm_config(workload, model) for model in workload.models],
                    "ingress_deployment_config": ingress.placement(),
                    **_ingress_class(workload),
                },
            }
        ],
    }


def _ingress_class(workload: RayWorkload) -> dict[str, Any]:
    """Return the ingress's class if Ray's own would take the end of a model's name for an adapter's name."""
    if not any(":" in model.name for model in workload.models):
        return {}
    return {"ingress_cls_config": {"ingress_cls": INGRESS_CLASS}}


def accelerator_type(model: Model) -> str | None:
    """Return Ray's name of the model's accelerator type."""
    written = model.accelerator.type
    return written if written is None else _RAY_ACCELERATOR_NAMES.get(written, written)


def llm_config(workload: RayWorkload, model: Model) -> dict[str, Any]:
    """Return Ray Serve LLM's configuration of one model."""
    source = weights(workload.name, model, workload.runtime.image_pull_policy)
    config: dict[str, Any] = {
        "model_loading_config": {"model_id": model.name, "model_source": source.model_source},
        "accelerator_config": {"kind": model.accelerator.kind.value},
        "placement_group_config": {
            # The model's own resource keeps its replicas in its own worker group: otherwise two models of
            # equal size would take each other's pods.
            "bundle_per_worker": {**bundle(model), names.model_resource(model.name): 1},
            "strategy": placement(model).value,
        },
    }
    if workload.runtime.direct_ingress:
        config["server_cls"] = SERVER_CLASS
    if source.callback is not None:
        config["callback_config"] = source.callback
    config["engine_kwargs"] = engine_kwargs(model, source)
    if model.engine.args.get("disable_log_stats"):
        # Ray Serve LLM reads its metrics from these statistics, and rejects one setting without the other.
        config["log_engine_metrics"] = False
    if model.routing is not None:
        config["deployment_config"] = {"request_router_config": request_router.config(model.routing)}
    if model.accelerator.kind is AcceleratorKind.GPU and (kind := accelerator_type(model)) is not None:
        config["accelerator_type"] = kind
    return config


def engine_kwargs(model: Model, source: Weights) -> dict[str, Any]:
    """Return vLLM's arguments for a model with these weights."""
    found: dict[str, Any] = _sorted(_engine_args(model)) | source.engine_args | _parallelism(model)
    found |= lora_config.engine_args(model)
    if model.trust_remote_code:
        found["trust_remote_code"] = True
    return found


def _engine_args(model: Model) -> dict[str, Any]:
    """Return the engine arguments as specified. By default, URLs of clients for media are rejected."""
    return {"allowed_media_domains": [NO_MEDIA_DOMAIN], **model.engine.args}


def _parallelism(model: Model) -> dict[str, Any]:
    sizes = {
        "tensor_parallel_size": model.parallelism.tensor,
        "pipeline_parallel_size": model.parallelism.pipeline,
    }
    return {name: size for name, size in sizes.items() if size > 1}


def model_deployment(workload: RayWorkload, model: Model) -> dict[str, Any]:
    """Return Serve's deployment options of one model."""
    serve = model.serve
    options: dict[str, Any] = {
        "name": names.serve_deployment(model.name),
        "max_ongoing_requests": serve.max_ongoing_requests,
        "max_queued_requests": serve.max_queued_requests,
        "health_check_period_s": as_seconds(serve.health_check_period),
        "health_check_timeout_s": as_seconds(serve.health_check_timeout),
        "graceful_shutdown_wait_loop_s": as_seconds(serve.graceful_shutdown_wait),
        "graceful_shutdown_timeout_s": as_seconds(serve.graceful_shutdown_timeout),
        # Serve replaces this object as a whole: omitted fields return to Serve's defaults.
        "autoscaling_config": _autoscaling(workload, model),
        **lora_config.user_config(model),
    }
    if model.routing is not None:
        options["request_router_config"] = request_router.config(model.routing)
    return options


def _target(model: Model) -> float:
    """Return autoscaling's target: no more requests in progress than a replica accepts."""
    chosen = model.replicas.target_ongoing_requests
    return chosen if chosen is not None else min(_TARGET_ONGOING_REQUESTS, model.serve.max_ongoing_requests)


def _autoscaling(workload: RayWorkload, model: Model) -> dict[str, Any]:
    replicas = model.replicas
    allowed = replica_range(workload, model)
    config: dict[str, Any] = {"min_replicas": allowed.min}
    # Serve scales to `initial_replicas` whenever a deployment's options change, not only at the start: a
    # model scaled up under load would lose replicas. The field is omitted if it equals the minimum. For a
    # model that goes to sleep, it stops replicas immediately instead of after the downscale delay.
    if allowed.initial != allowed.min or model.name in workload.asleep:
        config["initial_replicas"] = allowed.initial
    config["max_replicas"] = allowed.max
    config["target_ongoing_requests"] = plain(_target(model))
    config["upscale_delay_s"] = as_seconds(replicas.upscale_delay)
    config["downscale_delay_s"] = as_seconds(replicas.downscale_delay)
    if replicas.upscaling_factor is not None:
        config["upscaling_factor"] = plain(replicas.upscaling_factor)
    if replicas.downscaling_factor is not None:
        config["downscaling_factor"] = plain(replicas.downscaling_factor)
    config["look_back_period_s"] = as_seconds(replicas.look_back_period)
    return config


def _sorted(value: Any) -> Any:
    """Return a JSON value with the keys of every object sorted, regardless of their original order."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value
