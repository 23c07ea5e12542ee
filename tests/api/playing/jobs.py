"""Jobs that copy weights: the real controller makes their pods, and the tests play the kubelet."""

import json
from typing import Any

from daybreak.api.common.names import JOB_NAME_LABEL
from tests.api.admin import Admin, Refused, eventually


def jobs(admin: Admin) -> list[dict[str, Any]]:
    """Return the Jobs that are not being deleted."""
    return [each for each in admin.list("Job") if not each["metadata"].get("deletionTimestamp")]


def one_job(admin: Admin) -> dict[str, Any]:
    """Return the one Job, once it is there."""
    found: list[dict[str, Any]] = eventually("a Job", lambda: jobs(admin))
    [job] = found
    return job


def kubelet_says(admin: Admin, job: dict[str, Any], phase: str, **container: Any) -> None:
    """Play the kubelet: the pod that the Job's controller makes is in a phase, and its container so."""
    pods = eventually("a pod", lambda: _pods(admin, job))
    _says(admin, pods[0], phase, **container)


def complete(admin: Admin, job: dict[str, Any], size: int = 42) -> None:
    """Let the program succeed, and the Job with it."""
    kubelet_says(admin, job, "Succeeded", state={"terminated": _ended(size)})


def complete_all(admin: Admin) -> None:
    """Let every running copy succeed if its pod exists.

    Otherwise its controller has not created the pod yet, or the operator has deleted the Job since then.
    """
    for job in jobs(admin):
        if job.get("status", {}).get("succeeded"):
            continue
        for pod in _pods(admin, job)[:1]:
            try:
                _says(admin, pod, "Succeeded", state={"terminated": _ended(42)})
            except Refused as error:
                if error.status != 404:
                    raise


def _pods(admin: Admin, job: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = admin.list(
        "Pod", labelSelector=f"{JOB_NAME_LABEL}={job['metadata']['name']}"
    )
    return found


def _says(admin: Admin, pod: dict[str, Any], phase: str, **container: Any) -> None:
    usual = {"name": "fill", "image": "played", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": phase, "containerStatuses": [{**usual, **container}]}
    admin.merge("Pod", pod["metadata"]["name"], {"status": status}, subresource="status")


def _ended(size: int) -> dict[str, Any]:
    message = json.dumps({"bytes": size, "revision": None})
    return {"exitCode": 0, "reason": "Completed", "message": message}
