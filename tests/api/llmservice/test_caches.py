"""Weights that a Job copies into a claim, on a real API server. The real controller runs Jobs here."""

from typing import Any

from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.objects.llmservice import condition, model
from tests.api.objects.llmservice import tiny as service
from tests.api.operator_process import OperatorProcess
from tests.api.playing.jobs import complete, kubelet_says, one_job

CACHED = model(source="s3://bucket/tiny", cache={"size": "1Gi"})
CLAIM = "tiny-tiny-weights"


def cache(admin: Admin) -> dict[str, Any]:
    """Return the status of the cache's copy."""
    status = admin.get("LLMService", "tiny").get("status") or {}
    models = status.get("models") or [{}]
    return models[0].get("cache") or {}


def test_ray_service_is_created_after_weights_are_copied(admin: Admin, operator: OperatorProcess) -> None:
    admin.create(service(models=[CACHED]))
    job = one_job(admin)
    claim = admin.get("PersistentVolumeClaim", CLAIM)
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert job["metadata"]["annotations"][names.CACHE_ANNOTATION].startswith(f"{CLAIM}/s3-bucket-tiny-")
    eventually(
        "it is told",
        lambda: condition(admin.get("LLMService", "tiny"), "Reconciling").get("reason") == "FillingCache",
    )
    assert admin.get("RayService", "tiny") is None

    complete(admin, job)
    eventually("a RayService", lambda: admin.get("RayService", "tiny"))
    found = eventually("the copy noted", lambda: cache(admin).get("phase") == "Complete" and cache(admin))
    assert found["bytes"] == 42
    assert found["claim"] == CLAIM
    assert found["claimUid"] == claim["metadata"]["uid"]
    eventually("the Job gone, with its pods", lambda: not admin.list("Job") and not admin.list("Pod"))
    assert found["path"] in admin.get("RayService", "tiny")["spec"]["serveConfigV2"]


def test_failed_copy_stalls_service_until_copy_succeeds(admin: Admin, operator: OperatorProcess) -> None:
    admin.create(service(models=[CACHED]))
    job = one_job(admin)
    why = {"exitCode": 2, "reason": "Error", "message": "s3://bucket/tiny/: NoSuchBucket"}
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    kubelet_says(admin, job, "Running", state=waits, lastState={"terminated": why}, restartCount=1)
    reported = eventually(
        "it is told",
        lambda: (
            condition(admin.get("LLMService", "tiny"), "Ready").get("reason") == "CacheFailed"
            and admin.get("LLMService", "tiny")
        ),
    )
    assert "NoSuchBucket" in condition(reported, "Ready")["message"]
    assert condition(reported, "Stalled")["status"] == "True"
    assert reported["status"]["phase"] == "Failed"
    assert cache(admin)["phase"] == "Failed"
    assert admin.get("RayService", "tiny") is None
    complete(admin, job)
    eventually("a RayService", lambda: admin.get("RayService", "tiny"))
    eventually(
        "no action required",
        lambda: condition(admin.get("LLMService", "tiny"), "Stalled").get("status") == "False",
    )


def test_ray_service_is_unchanged_while_other_weights_are_copied(
    admin: Admin, operator: OperatorProcess
) -> None:
    admin.create(service(models=[CACHED]))
    complete(admin, one_job(admin))
    eventually("the copy noted", lambda: cache(admin).get("phase") == "Complete")
    before = eventually("a RayService", lambda: admin.get("RayService", "tiny"))
    eventually("the Job gone", lambda: not admin.list("Job"))

    other = CACHED | {"source": "s3://bucket/other"}
    admin.merge("LLMService", "tiny", {"spec": {"models": [other]}})
    job = one_job(admin)
    eventually("it is told", lambda: cache(admin)["path"].startswith("s3-bucket-other-"))
    now = admin.get("RayService", "tiny")
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert now["spec"] == before["spec"]
    complete(admin, job)
    eventually(
        "the new weights in use",
        lambda: "s3-bucket-other-" in admin.get("RayService", "tiny")["spec"]["serveConfigV2"],
    )


def test_pvc_is_deleted_after_cache_is_removed_from_spec(admin: Admin, operator: OperatorProcess) -> None:
    admin.create(service(models=[CACHED]))
    complete(admin, one_job(admin))
    eventually("a RayService", lambda: admin.get("RayService", "tiny"))
    admin.merge("LLMService", "tiny", {"spec": {"models": [model(source="s3://bucket/tiny")]}})

    def leaving() -> bool:
        # Its finalizer is taken off by a controller that does not run here.
        claim = admin.get("PersistentVolumeClaim", CLAIM)
        return claim is None or bool(claim["metadata"].get("deletionTimestamp"))

    eventually("the claim gone", leaving)


def test_smaller_pvc_size_is_rejected_and_stalls_service(admin: Admin, operator: OperatorProcess) -> None:
    admin.create(service(models=[CACHED]))
    one_job(admin)
    admin.merge("LLMService", "tiny", {"spec": {"models": [CACHED | {"cache": {"size": "1Mi"}}]}})
    eventually(
        "it is told",
        lambda: condition(admin.get("LLMService", "tiny"), "Stalled").get("reason") == "ObjectRejected",
    )
