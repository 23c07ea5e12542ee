"""Time from `kubectl apply` to the first token, compared with a hand-written RayService

The hand-written RayService is the one that Daybreak creates for the tiny sample. It is saved to a file with
its ServiceAccount, and applied by kubectl under another name. Both have the same pods, Serve configuration
and KubeRay. A client polls each service from `kubectl apply` on, and stops its clock at the first streamed
token. Runs alternate (Daybreak, hand, hand, Daybreak, …), so that a slow period of the machine affects both.

The measurement needs the embedded cluster with Daybreak installed (`make up`).
"""

import argparse
import http.client
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from bench import report
from cluster import paths
from cluster.tools.report import Report
from quickstart import install
from quickstart.target import Target

ROUNDS = 2
"""Number of rounds with four starts each; a start takes about three minutes on two cores."""
TIMEOUT_SECONDS = 900
POLL_SECONDS = 0.25
NAMESPACE = "default"
MINE, HAND = "bench-daybreak", "bench-hand"


def main(rounds: int = ROUNDS) -> None:
    """Measure and write `bench/results/overhead.json`."""
    target = Target(paths.KUBECONFIG, embedded=True)
    progress = Report()
    sample = yaml.safe_load(Path(install.SAMPLE).read_text())
    model = sample["spec"]["models"][0]["name"]
    mine = {**sample, "metadata": {"name": MINE}}
    hand = _hand_written(target, mine, progress)
    runs: list[dict[str, Any]] = []
    for number in range(rounds):
        order = ("daybreak", "hand", "hand", "daybreak") if number % 2 == 0 else ("hand", "daybreak") * 2
        for kind in order:
            manifests, service, port = (
                ([mine], MINE, 80) if kind == "daybreak" else (hand, f"{HAND}-serve-svc", 8000)
            )
            seconds = _first_token(target, manifests, service, port, model)
            progress.write(f"{kind}: first token after {seconds:.1f} s")
            runs.append({"kind": kind, "seconds": round(seconds, 2)})
            _remove(target, manifests)
    medians = {
        kind: report.median([run["seconds"] for run in runs if run["kind"] == kind])
        for kind in ("daybreak", "hand")
    }
    report.write(
        "overhead",
        f"python -m bench.cluster.overhead --rounds {rounds}",
        measures={
            "daybreak_seconds": medians["daybreak"],
            "hand_written_seconds": medians["hand"],
            "ratio": medians["daybreak"] / medians["hand"],
        },
        goals={"ratio": {"max": 1.05}},
        runs=runs,
        notes="Medians of alternating runs. Only the ratio is meaningful, because the machine has other "
        "load.",
    )


def _hand_written(target: Target, mine: Mapping[str, Any], progress: Report) -> list[dict[str, Any]]:
    """Return the sample's RayService and its ServiceAccount as a user would save them."""
    with progress.step("take Daybreak's RayService as the hand-written one"):
        _apply(target, [mine])
        deadline = time.monotonic() + 60
        while (ray_service := target.get("-n", NAMESPACE, "rayservice", MINE)) is None:
            if time.monotonic() > deadline:
                raise TimeoutError("no RayService after 60 s: is Daybreak installed (make up)?")
            time.sleep(POLL_SECONDS)
        _remove(target, [mine])
    spec = json.loads(json.dumps(ray_service["spec"]).replace(MINE, HAND))
    account = spec["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}},
        {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": HAND}, "spec": spec},
    ]


def _first_token(target: Target, manifests: list[Any], service: str, port: int, model: str) -> float:
    """Return the seconds from just before `kubectl apply` to the first streamed token."""
    begin = time.monotonic()
    _apply(target, manifests)
    address = ""
    while time.monotonic() - begin < TIMEOUT_SECONDS:
        if not address:
            found = target.get("-n", NAMESPACE, "service", service)
            address = found["spec"]["clusterIP"] if found else ""
        if address and _token(address, port, model):
            return time.monotonic() - begin
        time.sleep(POLL_SECONDS)
    raise TimeoutError(f"no token from {service} within {TIMEOUT_SECONDS} s")


def _token(address: str, port: int, model: str) -> bool:
    """Return True if a streamed completion brings a token; a rejection or an error means not yet."""
    connection = http.client.HTTPConnection(address, port, timeout=TIMEOUT_SECONDS)
    body = {"model": model, "prompt": "Good morning", "max_tokens": 1, "stream": True}
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status == 200 and answer.readline().startswith(b"data: {")
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _apply(target: Target, manifests: list[Any]) -> None:
    text = yaml.safe_dump_all(manifests)
    target.kubectl("apply", "-n", NAMESPACE, "--server-side", "-f", "-", stdin=text)


def _remove(target: Target, manifests: list[Any]) -> None:
    """Delete the objects, and wait until their pods are gone, because stopping pods slow the next run."""
    target.kubectl(
        "delete", "-n", NAMESPACE, "-f", "-", "--ignore-not-found", stdin=yaml.safe_dump_all(manifests)
    )
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while _pods(target):
        if time.monotonic() > deadline:
            raise TimeoutError("Ray pods are still there")
        time.sleep(1)


def _pods(target: Target) -> list[str]:
    """Return the Ray pods of both services; the pods of the sample stay."""
    listed = target.kubectl("get", "pods", "-n", NAMESPACE, "-l", "ray.io/cluster", "-o", "name")
    return [name for name in listed.split() if name.startswith((f"pod/{MINE}-", f"pod/{HAND}-"))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    main(**vars(parser.parse_args()))
