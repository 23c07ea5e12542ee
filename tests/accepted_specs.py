"""LLMServices that must be accepted as they are."""

from tests.specs import CLAIM, manifest, with_model, with_runtime

COMMIT = "0123456789abcdef0123456789abcdef01234567"

TAKEN = {
    "least": manifest(),
    "accelerators by a claim": with_model(accelerator={"claim": CLAIM}),
    "a policy alone": with_model(routing={"policy": "Session"}),
    "a pod that Kubernetes knows better": with_model(
        podTemplate={"spec": {"hostname": "a", "containers": [{"name": "ray", "workingDir": "/a"}]}}
    ),
    "remote code of a commit": with_model(trustRemoteCode=True, revision=COMMIT),
    "remote code in a claim": with_model(source="pvc://models/llama", trustRemoteCode=True),
    "no replicas at first": with_model(replicas={"min": 0, "initial": 0}),
    "initial at the max that is meant": with_model(replicas={"min": 3, "initial": 3}),
    "whole number as quantity": with_model(resources={"cpu": 4, "memory": "16Gi"}),
    "toleration of everything": with_model(accelerator={"tolerations": [{"operator": "Exists"}]}),
    "toleration for a time": with_model(
        accelerator={"tolerations": [{"key": "gpu", "effect": "NoExecute", "tolerationSeconds": 0}]}
    ),
    "API keys with and without a name": manifest(
        access={
            "apiKeys": [
                {"name": "team", "secretRef": {"name": "keys", "key": "one"}},
                {"secretRef": {"name": "keys", "key": "two"}},
                {"secretRef": {"name": "keys", "key": "three"}},
            ],
            "extraFields": ["priority"],
        }
    ),
    "held as long as needed": manifest(hold={"timeout": "Auto"}, sleep={"depth": "Cluster"}),
    "workers first, the cluster later": manifest(sleep={"afterIdle": "15m", "clusterAfterIdle": "1h30m"}),
    "asleep when it pays": manifest(
        sleep={"afterIdle": "Auto", "auto": {"max": "2h"}, "clusterAfterIdle": "2h1s"}
    ),
    "the cluster after a fixed time": manifest(sleep={"afterIdle": "5m", "clusterAfterIdle": "10m"}),
    "held for a time": manifest(hold={"timeout": "1h30m"}),
    "claim without a path": with_model(source="pvc://models"),
    "image by digest": with_model(source=f"image://registry:5000/weights@sha256:{'a' * 64}#model"),
    "dots in a file's name": with_model(source="file:///models/..hidden..model"),
    "name of 41 characters": manifest(name="n" * 41),
    "volume of Kubernetes' own": with_runtime(
        volumes=[{"name": "cache", "persistentVolumeClaim": {"claimName": "cache", "readOnly": True}}],
        volumeMounts=[{"name": "cache", "mountPath": "/cache", "subPath": "weights"}],
    ),
    "variable from the pod": with_runtime(
        env=[{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    ),
    "arguments of every JSON type": with_model(
        engine={
            "args": {
                "max_model_len": 8192,
                "gpu_memory_utilization": 0.9,
                "enforce_eager": True,
                "dtype": "bfloat16",
                "quantization": None,
                "allowed_media_domains": ["example.com"],
                "compilation_config": {"level": 3, "nested": {"empty": {}}},
            }
        }
    ),
}
"""Both sides must take these as they are."""
