"""LLMServices that must be refused, since a field is outside its bounds."""

from tests.specs import Broken, manifest, with_model, with_runtime

BY_SCHEMA = [
    Broken(
        "rank that vLLM does not have",
        with_model(lora={"maxRank": 12}),
        path="spec.models[0].lora.maxRank",
    ),
    Broken("no spec", {k: v for k, v in manifest().items() if k != "spec"}),
    Broken("no models", manifest(models=[]), path="spec.models"),
    Broken("17 models", manifest(models=[{"name": f"m{n}", "source": "hf://o/m"} for n in range(17)])),
    Broken("tensor 0", with_model(parallelism={"tensor": 0}), path="spec.models[0].parallelism.tensor"),
    Broken("tensor a text", with_model(parallelism={"tensor": "all"}), path="parallelism.tensor"),
    Broken("pipeline 65", with_model(parallelism={"pipeline": 65}), path="parallelism.pipeline"),
    Broken("source with a blank", with_model(source="s3://bucket/my model"), path="spec.models[0].source"),
    Broken("model name with a blank", with_model(name="my model"), path="spec.models[0].name"),
    Broken("model name of 97 characters", with_model(name="n" * 97), path="spec.models[0].name"),
    Broken("model without source", manifest(models=[{"name": "chat"}]), path="spec.models[0].source"),
    Broken("unknown field", with_model(replica=2), path="spec.models[0].replica"),
    Broken("unknown field deep down", with_model(serve={"maxOngoing": 2}), path="serve.maxOngoing"),
    Broken("unknown placement", with_model(placement="SPREAD"), path="spec.models[0].placement"),
    Broken("unknown kind", with_model(accelerator={"kind": "tpu"}), path="accelerator.kind"),
    Broken("resource without a domain", with_model(accelerator={"resource": "gpu"}), path="resource"),
    Broken("negative quantity", with_model(resources={"cpu": -1}), path="resources.cpu"),
    Broken("fraction without quotes", with_model(resources={"cpu": 0.5}), path="resources.cpu"),
    Broken("empty duration", with_model(replicas={"upscaleDelay": ""}), path="upscaleDelay"),
    Broken("duration beyond all time", with_model(serve={"healthCheckPeriod": "9999999h"})),
    Broken("target 0", with_model(replicas={"targetOngoingRequests": 0}), path="targetOngoingRequests"),
    Broken("negative replicas", manifest(replicas=-1), path="spec.replicas"),
    Broken("variable with a blank", with_runtime(env=[{"name": "A B", "value": "1"}]), path="env[0].name"),
    Broken("Ray version of words", with_runtime(rayVersion="latest"), path="spec.runtime.rayVersion"),
    Broken("relative mount", with_runtime(volumeMounts=[{"name": "a", "mountPath": "data"}])),
    Broken("label with a blank", with_model(accelerator={"nodeSelector": {"zone": "a b"}})),
    Broken(
        "129 engine arguments",
        with_model(engine={"args": {f"argument_{number}": 1 for number in range(129)}}),
        path="spec.models[0].engine.args",
    ),
    Broken("idle as it likes", manifest(sleep={"afterIdle": "auto"}), path="spec.sleep.afterIdle"),
    Broken(
        "waiting is worth nothing less", manifest(sleep={"auto": {"waitCost": -1}}), path="spec.sleep.auto"
    ),
    Broken("sleep of two depths", manifest(sleep={"depth": ["Workers", "Cluster"]}), path="spec.sleep.depth"),
    Broken("Secret in another namespace", with_model(token={"secretKeyRef": {"name": "a/b", "key": "k"}})),
]
"""Each breaks the bounds of one field."""
