"""The kinds that become one job, for the tests that hold for each of them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from daybreak.ray.ports import BATCH
from daybreak_runtime.batch.progress import Progress as BatchProgress
from daybreak_runtime.benchmark.progress import Progress as BenchmarkProgress
from daybreak_runtime.jobs.port import ProgressPort
from tests.api.admin import Admin
from tests.api.objects import batches, benchmarks
from tests.api.objects.batches import NIGHT
from tests.api.objects.benchmarks import TUNE
from tests.api.owners import Subject


@dataclass(frozen=True)
class JobKind:
    """A kind with one job."""

    subject: Subject
    job: str
    """Kind of the job."""
    reported: Callable[[Admin], str]
    """Function that returns the configuration that the job receives."""
    speaks: Callable[[Admin, str], AbstractContextManager[ProgressPort]]
    """The job of the object with a uid runs and speaks."""
    change: Mapping[str, Any]
    """Another spec."""
    theirs: Mapping[str, Any]
    """Spec of another owner's job of the same name."""
    broken: str
    """A reason with which its job ends."""


@contextmanager
def batch_speaks(admin: Admin, uid: str) -> Iterator[BatchProgress]:
    """Yield the job of a batch, on the port of a head pod."""
    progress = BatchProgress(uid)
    progress.listen(BATCH)
    batches.play_head(admin)
    batches.kuberay_says(admin, jobDeploymentStatus="Running", jobStatus="RUNNING")
    try:
        yield progress
    finally:
        progress.close()


@contextmanager
def benchmark_speaks(admin: Admin, uid: str) -> Iterator[BenchmarkProgress]:
    """Yield the job of a benchmark, on the port of its pod."""
    progress = BenchmarkProgress(uid)
    progress.listen(BATCH)
    benchmarks.play_its_pod(admin)
    try:
        yield progress
    finally:
        progress.close()


_POD = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
_HEAD = {"template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}

BATCHES = JobKind(
    NIGHT,
    "RayJob",
    batches.read_report,
    batch_speaks,
    {"prompt": "other {{ question }}"},
    {"apiVersion": "ray.io/v1", "spec": {"entrypoint": "a", "rayClusterSpec": {"headGroupSpec": _HEAD}}},
    "InputNotFound",
)
BENCHMARKS = JobKind(
    TUNE,
    "Job",
    benchmarks.read_report,
    benchmark_speaks,
    {"load": {"clients": [9]}},
    {"apiVersion": "batch/v1", "spec": {"suspend": True, "template": {"spec": _POD}}},
    "EngineFailed",
)
