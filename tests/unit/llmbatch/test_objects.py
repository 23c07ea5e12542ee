"""The objects of a batch."""

import json
from typing import Any

import pytest

from daybreak.api.common import names, volume_names
from daybreak.api.llmbatch.definition import QUEUE_LABEL, LLMBatch
from daybreak.kinds.llmbatch.objects.desired import desired
from daybreak.kinds.llmbatch.objects.ray_job import job_digest, ray_job
from daybreak_runtime.batch.order import Order
from tests import installed
from tests.unit.llmbatch.batches import MODEL, batch, manifest

PLATFORM = installed.platform()


def read_report(desired: dict[str, Any]) -> Order:
    [container] = desired["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]
    [variable] = [each for each in container["env"] if each["name"] == "DAYBREAK_BATCH"]
    return Order.read(json.loads(variable["value"]))


def head(desired: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = desired["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    return found


def test_runtime_reads_order_that_operator_writes() -> None:
    order = read_report(ray_job(batch(samplingParams={"max_tokens": 3}, maxFailedRows=4), PLATFORM))
    directory = volume_names.rows_directory("rows")
    assert order.input.uri == f"file://{directory}/in.jsonl"
    assert order.output.uri == f"file://{directory}/out"
    assert order.input.shown == "pvc://rows/in.jsonl"
    assert (order.uid, order.max_failed_rows, order.fail_on_error) == ("u-1", 4, False)
    assert order.request.sampling_params == {"max_tokens": 3}
    assert order.engines is not None
    assert order.engines.source == "/models/tiny"
    assert order.engines.bundle == {"CPU": 1, "model-tiny": 1}
    assert order.service is None


def test_a_claim_is_mounted_once_and_only_in_the_head() -> None:
    expected = ray_job(batch(), PLATFORM)
    claims = [each for each in head(expected)["volumes"] if "persistentVolumeClaim" in each]
    assert [each["persistentVolumeClaim"]["claimName"] for each in claims] == ["rows"]
    [group] = expected["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert not [each for each in group["template"]["spec"]["volumes"] if "persistentVolumeClaim" in each]


def test_buckets_need_no_volume() -> None:
    expected = ray_job(batch(input={"uri": "s3://b/in"}, output={"uri": "gs://b/out"}), PLATFORM)
    assert not [each for each in head(expected)["volumes"] if "persistentVolumeClaim" in each]
    assert (read_report(expected).input.uri, read_report(expected).output.uri) == ("s3://b/in", "gs://b/out")


def test_engine_slots_follow_arguments_or_device_default() -> None:
    model = MODEL | {"engine": {"args": {"max_num_seqs": 7}}}
    for written, slots in ((model, 7), (MODEL, 256), (MODEL | {"accelerator": {}}, 1024)):
        order = read_report(ray_job(batch(model=written), PLATFORM))
        assert order.engines is not None
        assert order.engines.max_num_seqs == slots


def test_replicas_are_fixed_or_autoscaled() -> None:
    fixed = ray_job(batch(replicas=3), PLATFORM)["spec"]["rayClusterSpec"]
    assert [fixed["workerGroupSpecs"][0][name] for name in ("minReplicas", "maxReplicas")] == [3, 3]
    assert "enableInTreeAutoscaling" not in fixed
    moving = ray_job(batch(model=MODEL | {"replicas": {"min": 1, "max": 4}}), PLATFORM)
    assert moving["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"] is True
    order = read_report(moving)
    assert order.engines is not None
    assert order.engines.replicas == (1, 4)


def test_preparation_uses_other_resource_than_engine() -> None:
    [group] = ray_job(batch(), PLATFORM)["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert group["resources"]["model-tiny"] == "1"
    assert int(group["resources"]["prepare-tiny"]) > 100


def test_service_batch_has_no_workers_and_references_api_key_secret() -> None:
    key = {"secretKeyRef": {"name": "keys", "key": "batch"}}
    expected = ray_job(batch(model=None, serviceRef={"name": "chat", "apiKey": key}), PLATFORM)
    assert expected["spec"]["rayClusterSpec"]["workerGroupSpecs"] == []
    order = read_report(expected)
    assert order.service is not None
    assert (order.service.url, order.service.model) == ("http://chat.team.svc/v1", "chat")
    [variable] = [
        each for each in head(expected)["containers"][0]["env"] if each["name"] == order.service.key
    ]
    assert variable["valueFrom"]["secretKeyRef"]["name"] == "keys"


@pytest.mark.parametrize(
    ("reference", "url", "model"),
    [
        ({"kind": "LLMRoute", "name": "chat"}, "http://llm.team.svc/v1", "chat"),
        ({"kind": "LLMRoute", "name": "chat", "model": "fast"}, "http://llm.team.svc/v1", "fast"),
        ({"kind": "ModelServer", "name": "own", "model": "m"}, "http://own.team.svc/v1", "m"),
    ],
)
def test_service_reference_resolves_to_address_and_model(
    reference: dict[str, Any], url: str, model: str
) -> None:
    order = read_report(ray_job(batch(model=None, serviceRef=reference), PLATFORM))
    assert order.service is not None
    assert (order.service.url, order.service.model) == (url, model)


def test_kueue_batch_has_queue_label_and_fixed_pod_count() -> None:
    moving = MODEL | {"replicas": {"min": 1, "max": 4}}
    queued = LLMBatch.from_manifest(manifest(labels={QUEUE_LABEL: "gpus"}, model=moving))
    expected = ray_job(queued, PLATFORM)
    assert expected["metadata"]["labels"][QUEUE_LABEL] == "gpus"
    assert "suspend" not in expected["spec"]
    [group] = expected["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 4
    assert "enableInTreeAutoscaling" not in expected["spec"]["rayClusterSpec"]


def test_job_has_http_mode_and_time_limits_of_spec() -> None:
    spec = ray_job(batch(activeDeadline="1h", backoffLimit=2, ttlAfterFinished="90s"), PLATFORM)["spec"]
    assert (spec["submissionMode"], spec["shutdownAfterJobFinishes"]) == ("HTTPMode", True)
    assert (spec["activeDeadlineSeconds"], spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) == (
        3600,
        2,
        90,
    )


@pytest.mark.parametrize("change", [{"suspend": True}, {"activeDeadline": "1h"}, {"ttlAfterFinished": "1m"}])
def test_mutable_fields_do_not_change_digest(change: dict[str, Any]) -> None:
    assert job_digest(batch(**change)) == job_digest(batch())
    assert job_digest(batch(prompt="other {{ q }}")) != job_digest(batch())


def test_explicit_default_service_kind_does_not_change_digest() -> None:
    one, other = (
        {"model": None, "serviceRef": {"name": "chat", **more}} for more in ({}, {"kind": "LLMService"})
    )
    assert job_digest(batch(**one)) == job_digest(batch(**other))


def test_batch_objects_have_names_distinct_from_service_objects() -> None:
    objects = desired(batch(), PLATFORM)
    assert [(each["kind"], each["metadata"]["name"]) for each in objects] == [
        ("ServiceAccount", "batch.night-sa"),
        ("NetworkPolicy", "batch.night-ray"),
        ("RayJob", "night"),
    ]
    assert all(names.labelled_owner(each["metadata"]["labels"]) == "batch.night" for each in objects)
    assert names.BATCH_ANNOTATION in objects[-1]["metadata"]["annotations"]


def test_a_suspended_batch_has_no_job() -> None:
    kinds = [each["kind"] for each in desired(batch(suspend=True), PLATFORM, running=False)]
    assert kinds == ["ServiceAccount", "NetworkPolicy"]
