"""Sample as the operator's own builders render it, and the changes for a machine without Kubernetes."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Any

import yaml

from daybreak.api.llmservice.definition import LLMService
from daybreak.api.schema.scalars import parse_quantity
from daybreak.kinds.llmservice.objects.ray_service import ray_service
from daybreak.platform import Platform
from daybreak.ray.pods.pod_spec import CACHE_DIRECTORY

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLES = REPOSITORY / "manifests" / "samples"
IMAGES = REPOSITORY / "images"

_PLATFORM = Platform(ray_image="ray", ray_cpu_image="ray-cpu")


@dataclass(frozen=True)
class Pod:
    """Start parameters of the container of a Ray pod."""

    ray_start: tuple[str, ...]
    """Arguments of `ray start`, as KubeRay writes them from `rayStartParams`, `resources` and limits."""
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Rendered:
    """Generated configuration of a service."""

    model: str
    """Name of the model in client requests."""
    config: Mapping[str, Any]
    """Content of `serveConfigV2`."""
    head: Pod
    worker: Pod
    changes: tuple[str, ...] = field(default=())
    """Changes of the sample and of the generated configuration, for display."""

    @property
    def engine_args(self) -> dict[str, Any]:
        """Return the engine arguments of vLLM."""
        return dict(self._llm_config["engine_kwargs"])

    @property
    def deployment(self) -> Mapping[str, Any]:
        """Return Serve's options for the model's replicas."""
        found: Mapping[str, Any] = self._application["deployments"][-1]
        return found

    @property
    def look_back_seconds(self) -> float:
        """Return the look-back period of Serve's autoscaler: requests that ended within it still count."""
        return float(self.deployment["autoscaling_config"]["look_back_period_s"])

    @property
    def strategy(self) -> str:
        """Return the placement strategy of the replica's accelerators."""
        return str(self._llm_config["placement_group_config"]["strategy"])

    @property
    def source(self) -> str:
        """Return the path or name from which the engine reads the model."""
        source = self._llm_config["model_loading_config"]["model_source"]
        if not isinstance(source, str):
            raise ValueError(f"model {self.model} does not lie in a folder: {source}")
        return source

    @property
    def _application(self) -> Mapping[str, Any]:
        # If a service ever has several applications, the first one is the first model's.
        found: Mapping[str, Any] = self.config["applications"][0]
        return found

    @property
    def _llm_config(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._application["args"]["llm_configs"][0]
        return found


@dataclass(frozen=True)
class Wish:
    """Requested changes of a sample for this machine."""

    sample: str
    folder: Path
    """Folder of the model."""
    dummy: bool = False
    tensor: int = 1
    more_args: Mapping[str, Any] = field(default_factory=dict)


def samples() -> dict[str, LLMService]:
    """Return every LLMService of the samples by the name of its file, validated like in the API server."""
    return {
        file.stem: _service(manifest)
        for file in sorted(SAMPLES.glob("*.yaml"))
        for manifest in yaml.safe_load_all(file.read_text())
        if manifest["kind"] == "LLMService"
    }


def rendered_samples() -> dict[str, int]:
    """Return the GPU requests of each sample's worker pod, after building all Ray objects."""
    found = {}
    for name, service in samples().items():
        spec = ray_service(service, _PLATFORM)["spec"]["rayClusterConfig"]
        found[name] = max(int(group["resources"]["GPU"]) for group in spec["workerGroupSpecs"])
    return found


def render(wish: Wish, *, port: int, cache: Path, asleep: bool = False) -> Rendered:
    """Render a sample's first model for this machine.

    Args:
        wish: Sample and its requested changes.
        port: Port of Serve's proxy.
        cache: Folder in place of the pods' cache volume.
        asleep: True to scale the model to zero, as the operator does.
    """
    manifest = yaml.safe_load((SAMPLES / f"{wish.sample}.yaml").read_text())
    changes = [f"source file://{wish.folder.name}", "one replica at most"]
    spec = manifest["spec"]
    model = spec["models"][0]
    spec["models"] = [model]
    model["source"] = f"file://{wish.folder}"
    for offline in ("token", "revision"):
        if model.pop(offline, None) is not None:
            changes.append(f"no {offline}")
    replicas = model.setdefault("replicas", {})
    replicas.update({"min": 1, "max": 1})
    args = model.setdefault("engine", {}).setdefault("args", {})
    own: dict[str, Any] = {"load_format": "dummy"} if wish.dummy else {}
    own |= wish.more_args
    if own:
        args.update(own)
        changes.append("engine arguments " + ", ".join(f"{key}={value}" for key, value in own.items()))
    if wish.tensor > 1:
        model["parallelism"] = {"tensor": wish.tensor}
        changes.append(f"tensor {wish.tensor}")
    service = _service(manifest)
    if asleep:
        service = replace(service, asleep=frozenset({service.spec.models[0].name}))
    ray = ray_service(service, _PLATFORM)["spec"]
    config = yaml.safe_load(ray["serveConfigV2"])
    # Head and worker share a network here: the worker's proxy would take half of the head's connections.
    config["proxy_location"] = "HeadOnly"
    config["http_options"] |= {"host": "127.0.0.1", "port": port}
    changes.append("Serve's proxy on the head only, on the loopback")
    cluster = ray["rayClusterConfig"]
    return Rendered(
        model=service.spec.models[0].name,
        config=config,
        head=_pod(cluster["headGroupSpec"], cache),
        worker=_pod(cluster["workerGroupSpecs"][0], cache),
        changes=tuple(changes),
    )


def _service(manifest: Mapping[str, Any]) -> LLMService:
    metadata = {"namespace": "default", "uid": "gpu-check", "generation": 1, **manifest["metadata"]}
    return LLMService.from_manifest({**manifest, "metadata": metadata})


def _pod(group: Mapping[str, Any], cache: Path) -> Pod:
    container = group["template"]["spec"]["containers"][0]
    resources = dict(group["resources"])
    start = [
        f"--num-cpus={resources.pop('CPU')}",
        f"--num-gpus={resources.pop('GPU')}",
        f"--memory={int(parse_quantity(container['resources']['limits']['memory']))}",
        f"--object-store-memory={group['rayStartParams']['object-store-memory']}",
        "--resources=" + json.dumps({name: float(amount) for name, amount in resources.items()}),
    ]
    environment = {
        variable["name"]: variable["value"].replace(CACHE_DIRECTORY, str(cache))
        for variable in container["env"]
        if "value" in variable
    }
    return Pod(tuple(start), environment)


def image_environment(image: str, prefix: Path, cache: Path, present: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an image's Dockerfile sets, for packages outside /opt/ray.

    Args:
        image: Folder in `images/`.
        prefix: Folder of the packages.
        cache: Folder in place of the pods' cache volume.
        present: Environment for references in the Dockerfile's lines, as in `$PATH`.
    """
    text = (IMAGES / image / "Dockerfile").read_text().replace("\\\n", " ")
    found: dict[str, str] = {}
    for line in re.findall(r"^ENV (.*)$", text, re.MULTILINE):
        for word in shlex.split(line):
            name, _, value = word.partition("=")
            value = value.replace("/opt/ray", str(prefix)).replace(CACHE_DIRECTORY, str(cache))
            found[name] = Template(value).safe_substitute({**present, **found})
    # These variables select the pod's devices in the container runtime.
    return {name: value for name, value in found.items() if not name.startswith("NVIDIA_")}
