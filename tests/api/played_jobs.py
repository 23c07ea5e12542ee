"""Jobs that copy weights: the real controller makes their pods, and the tests play the kubelet."""

import json
from typing import Any

from daybreak.kinds.llmservice.decide.caches import JOB_NAME_LABEL
from tests.api.admin import Admin, Refused, eventually


def jobs(admin: Admin) -> list[dict[str, Any]]:
    """The Jobs that are there to stay."""
    return [each for each in admin.list("Job") if not each["metadata"].get("deletionTimestamp")]


def one_job(admin: Admin) -> dict[str, Any]:
    """The one Job, once it is there."""
    found: list[dict[str, Any]] = eventually("a Job", lambda: jobs(admin))
    [job] = found
    return job


def kubelet_says(admin: Admin, job: dict[str, Any], phase: str, **container: Any) -> None:
    """Play the kubelet: the pod that the Job's controller has made is in a phase, and its container so."""
    name = job["metadata"]["name"]
    pods = eventually("a pod", lambda: admin.list("Pod", labelSelector=f"{JOB_NAME_LABEL}={name}"))
    usual = {"name": "fill", "image": "played", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": phase, "containerStatuses": [{**usual, **container}]}
    admin.merge("Pod", pods[0]["metadata"]["name"], {"status": status}, subresource="status")


def complete(admin: Admin, job: dict[str, Any], size: int = 42) -> None:
    """The program succeeds, and the Job with it."""
    ended = {"exitCode": 0, "reason": "Completed", "message": json.dumps({"bytes": size, "revision": None})}
    kubelet_says(admin, job, "Succeeded", state={"terminated": ended})


def complete_all(admin: Admin) -> None:
    """Every copy that is under way succeeds, as far as its pod is there."""
    for job in jobs(admin):
        name = job["metadata"]["name"]
        if not admin.list("Pod", labelSelector=f"{JOB_NAME_LABEL}={name}"):
            continue  # its controller has not made it yet, or the operator has taken the Job away
        if job.get("status", {}).get("succeeded"):
            continue
        try:
            complete(admin, job)
        except Refused as error:
            if error.status != 404:
                raise  # else it was done already, and the operator took it away in between
