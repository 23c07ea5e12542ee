"""LLMServices that must be rejected, with the required messages.

The unit tests hold the operator's models to them, the API tests the real API server's CRD: both must refuse
each, so that neither depends on the other. Fields outside their own bounds are in `out_of_bounds_specs.py`.
"""

from tests.specs import CLAIM, Broken, manifest, with_model, with_runtime

_EXISTS_WITH_VALUE = {"key": "gpu", "operator": "Exists", "value": "yes"}
_TWO_MODELS = [{"name": "chat", "source": "hf://owner/model"}, {"name": "chat", "source": "hf://owner/other"}]
_CPU_AND_GPU = [
    {"name": "small", "source": "hf://owner/small", "accelerator": {"kind": "cpu"}},
    {"name": "large", "source": "hf://owner/large"},
]
_TOKEN = {"secretKeyRef": {"name": "hugging-face", "key": "token"}}

BY_RULE = [
    Broken(
        "two API keys of one name",
        manifest(
            access={
                "apiKeys": [
                    {"name": "team", "secretRef": {"name": "keys", "key": each}} for each in ("one", "two")
                ]
            }
        ),
        "names of API keys must be unique",
    ),
    Broken(
        "name of 42 characters",
        manifest(name="n" * 42),
        "metadata.name may have at most 41 characters: KubeRay allows a RayService 47, and its name may need "
        "a suffix",
    ),
    Broken(
        "name with a digit first",
        manifest(name="7b"),
        "metadata.name must be lower-case letters, digits and '-', begin with a letter and not end with '-', "
        "since a Service of that name is made",
    ),
    Broken(
        "name with a dot",
        manifest(name="qwen2.5"),
        "metadata.name must be lower-case letters, digits and '-', begin with a letter and not end with '-', "
        "since a Service of that name is made",
    ),
    Broken(
        "name of the address of all models",
        manifest(name="llm"),
        "metadata.name must not be llm: the address of all models of a namespace has that name",
    ),
    Broken("two models of one name", manifest(models=_TWO_MODELS), "names of models must be unique"),
    Broken(
        "CPU and GPU in one service",
        manifest(models=_CPU_AND_GPU),
        "all models of a service share one image: use one accelerator kind, or two services",
    ),
    Broken(
        "token for a bucket",
        with_model(source="s3://bucket/model", token=_TOKEN),
        "token requires an hf:// source; s3:// and gs:// use runtime.env or runtime.serviceAccountName",
        "spec.models[0]",
    ),
    Broken(
        "revision of an adapter in a file",
        with_model(lora={"adapters": [{"name": "a", "source": "file:///a", "revision": "main"}]}),
        "revision requires an hf:// source",
        "spec.models[0].lora.adapters[0]",
    ),
    Broken(
        "revision of a file",
        with_model(source="file:///models/tiny", revision="main"),
        "revision requires an hf:// source",
        "spec.models[0]",
    ),
    Broken(
        "cache of a file",
        with_model(source="file:///models/tiny", cache={"size": "1Gi"}),
        "cache requires an hf://, s3:// or gs:// source: other sources are already volumes or files",
        "spec.models[0]",
    ),
    Broken(
        "cache without a claim",
        with_model(cache={}),
        "set either cache.claimName (an existing PVC) or cache.size (a PVC that Daybreak creates)",
        "spec.models[0].cache",
    ),
    Broken(
        "cache with two claims",
        with_model(cache={"claimName": "models", "size": "1Gi"}),
        "set either cache.claimName (an existing PVC) or cache.size (a PVC that Daybreak creates)",
        "spec.models[0].cache",
    ),
    Broken(
        "storage class of a claim that is there",
        with_model(cache={"claimName": "models", "storageClassName": "fast"}),
        "cache.storageClassName and cache.accessMode require cache.size, not cache.claimName",
        "spec.models[0].cache",
    ),
    Broken(
        "remote code without revision",
        with_model(trustRemoteCode=True),
        "trustRemoteCode runs code from the repository: pin it with revision, a commit of 40 hex digits",
        "spec.models[0]",
    ),
    Broken(
        "remote code of a branch",
        with_model(trustRemoteCode=True, revision="main"),
        "trustRemoteCode runs code from the repository: pin it with revision, a commit of 40 hex digits",
        "spec.models[0]",
    ),
    Broken(
        "tensor 2 on the CPU",
        with_model(accelerator={"kind": "cpu"}, parallelism={"tensor": 2}),
        "accelerator kind cpu has no parallelism: leave tensor and pipeline at 1",
        "spec.models[0]",
    ),
    Broken(
        "accelerator type on the CPU",
        with_model(accelerator={"kind": "cpu", "type": "H100"}),
        "accelerator.type requires accelerator.kind gpu; remove it for kind cpu",
        "spec.models[0].accelerator",
    ),
    Broken(
        "max below min",
        with_model(replicas={"min": 3, "max": 2}),
        "replicas.max must not be below replicas.min",
        "spec.models[0].replicas",
    ),
    Broken(
        "initial above max",
        with_model(replicas={"min": 1, "max": 2, "initial": 3}),
        "replicas.initial must lie between replicas.min and replicas.max",
        "spec.models[0].replicas",
    ),
    Broken(
        "initial above what an unset max means",
        with_model(replicas={"initial": 2}),
        "replicas.initial must lie between replicas.min and replicas.max",
        "spec.models[0].replicas",
    ),
    Broken(
        "initial below min",
        with_model(replicas={"min": 2, "initial": 1}),
        "replicas.initial must lie between replicas.min and replicas.max",
        "spec.models[0].replicas",
    ),
    Broken(
        "no queue at all",
        with_model(serve={"maxQueuedRequests": 0}),
        "serve.maxQueuedRequests is -1 (no limit) or at least 1",
        "spec.models[0].serve",
    ),
    Broken(
        "duration without a unit",
        with_model(replicas={"upscaleDelay": "10"}),
        "write hours, minutes and seconds, such as 90s or 1h30m",
        "spec.models[0].replicas.upscaleDelay",
    ),
    Broken(
        "duration in the wrong order",
        with_model(serve={"healthCheckPeriod": "5s1m"}),
        "write hours, minutes and seconds, such as 90s or 1h30m",
        "spec.models[0].serve.healthCheckPeriod",
    ),
    Broken(
        "hold time of words",
        manifest(hold={"timeout": "Never"}),
        "write Auto, or hours, minutes and seconds, such as 90s or 1h30m",
        "spec.hold.timeout",
    ),
    Broken(
        "quantity of words",
        with_model(resources={"cpu": "many"}),
        "write a Kubernetes quantity, such as 500m, 4 or 16Gi",
        "spec.models[0].resources.cpu",
    ),
    Broken(
        "look back of zero",
        with_model(replicas={"lookBackPeriod": "0m0s"}),
        "must be longer than 0s",
        "spec.models[0].replicas.lookBackPeriod",
    ),
    Broken(
        "health check without time",
        with_model(serve={"healthCheckTimeout": "0s"}),
        "must be longer than 0s",
        "spec.models[0].serve.healthCheckTimeout",
    ),
    Broken(
        "toleration with Exists and a value",
        with_model(accelerator={"tolerations": [_EXISTS_WITH_VALUE]}),
        "operator Exists takes no value: leave value out, or use operator Equal",
        "spec.models[0].accelerator.tolerations[0]",
    ),
    Broken(
        "toleration without a key",
        manifest(runtime={"head": {"tolerations": [{"effect": "NoSchedule"}]}}),
        "a toleration without a key tolerates everything and needs operator Exists",
        "spec.runtime.head.tolerations[0]",
    ),
    Broken(
        "toleration for a time without NoExecute",
        with_model(accelerator={"tolerations": [{"key": "gpu", "tolerationSeconds": 5}]}),
        "tolerationSeconds belongs to effect NoExecute",
        "spec.models[0].accelerator.tolerations[0]",
    ),
    Broken(
        "variable with two values",
        with_runtime(env=[{"name": "A", "value": "1", "valueFrom": _TOKEN}]),
        "a variable has a value or a valueFrom, not both",
        "spec.runtime.env[0]",
    ),
    Broken(
        "variable from nowhere",
        with_runtime(env=[{"name": "A", "valueFrom": {}}]),
        "valueFrom has exactly one of secretKeyRef, configMapKeyRef and fieldRef",
        "spec.runtime.env[0].valueFrom",
    ),
    Broken(
        "source of unknown scheme",
        with_model(source="ftp://host/model"),
        "use one of hf://, s3://, gs://, pvc://, image://, file://",
        "spec.models[0].source",
    ),
    Broken(
        "source in a registry that only a ModelServer's engine reads",
        with_model(source="ollama://llama3"),
        "use one of hf://, s3://, gs://, pvc://, image://, file://",
        "spec.models[0].source",
    ),
    Broken(
        "Hugging Face model without owner",
        with_model(source="hf://gpt2"),
        "a Hugging Face model is written hf://owner/name",
        "spec.models[0].source",
    ),
    Broken(
        "Hugging Face model with a directory",
        with_model(source="hf://owner/name/directory"),
        "a Hugging Face model is written hf://owner/name",
        "spec.models[0].source",
    ),
    Broken(
        "S3 without bucket",
        with_model(source="s3:///prefix"),
        "a bucket is written s3://bucket/prefix",
        "spec.models[0].source",
    ),
    Broken(
        "Google storage without bucket",
        with_model(source="gs:///prefix"),
        "a bucket is written gs://bucket/prefix",
        "spec.models[0].source",
    ),
    Broken(
        "claim in capitals",
        with_model(source="pvc://Models/llama"),
        "a PersistentVolumeClaim is written pvc://claim/path",
        "spec.models[0].source",
    ),
    Broken(
        "image with a path and no reference",
        with_model(source="image://#weights"),
        "an image is written image://registry/name:tag#path",
        "spec.models[0].source",
    ),
    Broken(
        "relative file",
        with_model(source="file://models/tiny"),
        "a path in the Ray image is written file:///path",
        "spec.models[0].source",
    ),
    Broken(
        "root as file",
        with_model(source="file:///"),
        "a path in the Ray image is written file:///path",
        "spec.models[0].source",
    ),
    Broken(
        "the cluster after all of it",
        manifest(sleep={"depth": "Cluster", "clusterAfterIdle": "4h"}),
        "sleep.clusterAfterIdle requires depth Workers, because Cluster releases everything at once",
        "spec.sleep",
    ),
    Broken(
        "the cluster before the workers",
        manifest(sleep={"clusterAfterIdle": "900s"}),
        "sleep.clusterAfterIdle must be longer than sleep.afterIdle",
        "spec.sleep",
    ),
    Broken(
        "the cluster before the workers may go",
        manifest(sleep={"afterIdle": "Auto", "clusterAfterIdle": "1h"}),
        "sleep.clusterAfterIdle must be longer than sleep.auto.max",
        "spec.sleep",
    ),
    Broken(
        "bounds of idle time the wrong way round",
        manifest(sleep={"afterIdle": "Auto", "auto": {"min": "2h"}}),
        "sleep.auto.min must not be longer than sleep.auto.max",
        "spec.sleep.auto",
    ),
    Broken(
        "idle for no time",
        manifest(sleep={"afterIdle": "0s"}),
        "must be longer than 0s",
        "spec.sleep.afterIdle",
    ),
    Broken(
        "claim on the CPU",
        with_model(accelerator={"kind": "cpu", "claim": CLAIM}),
        "accelerator.claim requires accelerator.kind gpu; remove it for kind cpu",
        "spec.models[0].accelerator",
    ),
    Broken(
        "claim and resource",
        with_model(accelerator={"resource": "amd.com/gpu", "claim": CLAIM}),
        "set accelerator.resource or accelerator.claim, not both",
        "spec.models[0].accelerator",
    ),
    Broken(
        "prefix settings for sessions",
        with_model(routing={"policy": "Session", "prefix": {}}),
        "routing.prefix belongs to policy Prefix",
        "spec.models[0].routing",
    ),
    Broken(
        "session settings for prefixes",
        with_model(routing={"policy": "Prefix", "session": {}}),
        "routing.session belongs to policy Session",
        "spec.models[0].routing",
    ),
    Broken(
        "more left than remembered",
        with_model(routing={"policy": "Prefix", "prefix": {"evictionThresholdChars": 10}}),
        "prefix.evictionTargetChars must not be above prefix.evictionThresholdChars",
        "spec.models[0].routing.prefix",
    ),
    Broken(
        "way out of a claim",
        with_model(source="pvc://models/../other"),
        "a path must not contain '..'",
        "spec.models[0].source",
    ),
]
"""Specs that each break a rule; both sides must return its message."""
