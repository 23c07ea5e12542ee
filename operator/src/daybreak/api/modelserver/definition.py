"""The ModelServer kind, and the conversion of a manifest into it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

from daybreak.api.common import names
from daybreak.api.common.engine_args import nearest
from daybreak.api.gates.protocol import Protocol
from daybreak.api.gates.sleep import Sleep
from daybreak.api.modelserver.profiles import CUSTOM, EngineProfile, Engines, filled, profiles
from daybreak.api.modelserver.resource import KIND
from daybreak.api.modelserver.spec import ModelServerSpec
from daybreak.api.ray.model import Engine, Model, Parallelism, Placement, Serve
from daybreak.api.ray.runtime import Runtime
from daybreak.api.ray.workload import RayWorkload
from daybreak.api.schema.custom_object import InvalidSpec, identity, read_spec
from daybreak.api.schema.custom_resource import NameRule, at_most, dns_label

SHORT_NAME = "ms"

V2_READY = "/v2/models/{model}/ready"
"""Path at which a server of the Open Inference Protocol reports whether a model is ready."""
NAME_LIMIT = 40
"""Maximum length of a ModelServer's name. Pod names and labels, which have at most 63 characters, contain the
name; see `names`."""
NAME_RULES = (
    at_most(NAME_LIMIT, "other names are made of it"),
    dns_label("since a Service of that name is made"),
    NameRule(
        f"self.metadata.name != '{names.ROUTER}'",
        f"metadata.name must not be {names.ROUTER}: the address of all models of a namespace has that name",
        lambda name: name != names.ROUTER,
    ),
)


@dataclass(frozen=True)
class ModelServer:
    """Identity and spec of a ModelServer, without its status."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: ModelServerSpec
    engine: EngineProfile
    """Profile of the engine, without the values that the spec sets for a custom engine."""

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any], engines: Engines | None = None) -> Self:
        """Parse a manifest from the API server. Raises InvalidSpec.

        `validation.problems` checks the rules across fields. `engines` are the available engines; None
        means the built-in ones.
        """
        spec = read_spec(manifest, NAME_RULES, ModelServerSpec)
        known = profiles() if engines is None else engines
        if spec.engine not in known:
            if reason := known.refused.get(spec.engine):
                raise InvalidSpec(
                    f"spec.engine: {spec.engine} cannot be used, as the chart's value has it: {reason}"
                )
            near = nearest(spec.engine, known)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
            raise InvalidSpec(f"spec.engine: {spec.engine} is not known here; {hint}")
        return cls(**identity(manifest), spec=spec, engine=known[spec.engine])

    @property
    def owner(self) -> str:
        """Owner identifier in labels, and in the names of the server's objects."""
        return names.of_owner(KIND, self.name)

    @property
    def sleeps(self) -> Mapping[str, Sleep | None]:
        """Sleep settings by the name of the server's only gate; None if the server never sleeps by itself."""
        return {self.spec.model.name: self.spec.sleep}

    def starts_asleep(self, gate: str) -> bool:
        """Return False, because a new server starts awake."""
        return False

    @property
    def profile(self) -> EngineProfile:
        """Profile of the engine, with the values that the spec sets for a custom engine."""
        spec = self.spec
        if spec.engine != CUSTOM:
            return self.engine
        report = {
            "command": spec.command,
            "args": spec.args,
            "port": spec.port,
            "readiness_path": spec.readiness_path or (V2_READY if spec.protocol is Protocol.V2 else None),
            "protocol": spec.protocol,
            "metrics_path": spec.metrics_path,
            "metrics_port": spec.metrics_port,
        }
        return self.engine.model_copy(
            update={name: value for name, value in report.items() if value is not None}
        )

    @property
    def image(self) -> str | None:
        """Image of the engine, or None for the image of the installation's Ray pods."""
        return self.spec.image or self.engine.image

    @property
    def protocol(self) -> Protocol:
        """Protocol that the gateway admits."""
        return self.spec.protocol or self.profile.protocol

    @property
    def readiness_path(self) -> str:
        """Path at which the engine returns 200 as soon as it accepts requests."""
        return self._path(self.profile.readiness_path)

    @property
    def answer_path(self) -> str:
        """Path at which the engine returns 200 when the model answers.

        Empty if the operator probes the model with a request of its task.
        """
        return self._path(self.profile.effective_probe_path)

    def _path(self, template: str) -> str:
        [found] = filled([template], {"model": quote(self.spec.model.name, safe="")})
        return found

    @property
    def model(self) -> Model:
        """Model of the server, from which its pods are built, placed, counted and probed.

        Each pod of a multi-node replica counts as one pipeline stage, regardless of how the engine splits
        the model.
        """
        spec = self.spec
        parallelism = self.spec.parallelism
        if spec.nodes > 1:
            each = parallelism.tensor * parallelism.pipeline // spec.nodes
            parallelism = Parallelism(tensor=each, pipeline=spec.nodes)
        # Without validation: the values are valid, and a registry is no source of a Ray model.
        return Model.model_construct(
            name=spec.model.name,
            source=spec.model.source,
            revision=spec.model.revision,
            token=spec.model.token,
            trust_remote_code=spec.model.trust_remote_code,
            engine=Engine(args=spec.engine_args or {}),
            parallelism=parallelism,
            placement=Placement.PACK if spec.nodes > 1 else Placement.STRICT_PACK,
            accelerator=spec.accelerator,
            resources=spec.resources,
            serve=Serve(
                max_ongoing_requests=spec.max_ongoing_requests,
                graceful_shutdown_timeout=spec.graceful_shutdown_timeout,
            ),
            pod_template=spec.pod_template,
        )

    @property
    def workload(self) -> RayWorkload:
        """Model and pod settings of the server, for code that builds the pods of any workload."""
        spec = self.spec
        runtime = Runtime(
            image=self.image,
            image_pull_policy=spec.image_pull_policy,
            image_pull_secrets=spec.image_pull_secrets,
            env=spec.env,
            service_account_name=spec.service_account_name,
        )
        return RayWorkload(self.owner, (self.model,), runtime, spec.replicas)
