"""All objects of each sample in the default installation as text, so that a review sees each change.

After a wanted change: `pytest tests/golden --snapshot-update`, and read the difference.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from daybreak.api.llmbatch.definition import KIND as BATCH
from daybreak.api.llmbatch.definition import LLMBatch
from daybreak.api.llmbenchmark.definition import KIND as BENCHMARK
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.resource import KIND
from daybreak.api.llmservice.spec import LLMServiceSpec
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.resource import KIND as SERVER
from daybreak.api.schema.base import ApiModel
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.api.serveapplication.resource import KIND as APPLICATION
from daybreak.gateways.port_allocator import PortAllocator
from daybreak.kinds.llmbatch.objects import desired as batch_desired
from daybreak.kinds.llmbenchmark.objects import desired as benchmark_desired
from daybreak.kinds.llmbenchmark.objects.target import target
from daybreak.kinds.llmservice.objects.desired import desired
from daybreak.kinds.llmservice.objects.revisions import controller_revision, with_own
from daybreak.kinds.modelserver.objects import desired as server_desired
from daybreak.kinds.serveapplication.objects import desired as application_desired
from daybreak.kinds.serveapplication.objects import revisions as application_revisions
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey
from daybreak.platform import Platform
from tests import installed

SAMPLES = Path(__file__).parents[2] / "manifests" / "samples"
EVERYTHING = Path(__file__).with_name("everything.yaml")
"""A service that sets every field; no sample for users."""
LEFT_OUT = {
    "Accelerator.kind",
    "LLMServiceSpec.replicas",
    "LLMServiceSpec.state",
    "Sleep.depth",
}
"""Fields that the sample leaves unset: others could not be set then, or would mean nothing."""
WITHOUT_GATEWAY = SAMPLES / "llama-8b-one-gpu.yaml"
"""The sample that is also read as it is without a gateway."""
PLATFORM = installed.platform()


class Manifests(SingleFileSnapshotExtension):
    """One YAML file for each service."""

    file_extension = "yaml"
    _write_mode = WriteMode.TEXT


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as such, so that Serve's configuration can be read."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_text(objects: list[dict[str, Any]]) -> str:
    """Return the objects in one YAML file."""
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def services() -> list[Any]:
    """Return every LLMService of the samples, and the one that sets everything."""
    return _of_kind(KIND)


def batches() -> list[Any]:
    """Return every LLMBatch of the samples."""
    return _of_kind(BATCH)


def benchmarks() -> list[Any]:
    """Return every LLMBenchmark of the samples."""
    return _of_kind(BENCHMARK)


def servers() -> list[Any]:
    """Return every ModelServer of the samples."""
    return _of_kind(SERVER)


def applications() -> list[Any]:
    """Return every ServeApplication of the samples."""
    return _of_kind(APPLICATION)


def _of_kind(kind: str) -> list[Any]:
    found = []
    for path in [EVERYTHING, *sorted(SAMPLES.glob("*.yaml"))]:
        for manifest in yaml.safe_load_all(path.read_text()):
            if manifest.get("kind") == kind:
                found.append(pytest.param(manifest, id=f"{path.stem}-{manifest['metadata']['name']}"))
    return found


def applied(manifest: dict[str, Any], platform: Platform) -> str:
    """Return the objects of a service, the first of its namespace; KubeRay has named a cluster for it."""
    metadata = {"namespace": "default", "uid": "0-0", **manifest["metadata"]}
    svc = LLMService.from_manifest({**manifest, "metadata": metadata})
    port = (
        PortAllocator(Cache()).of(OwnerKey.of_label(svc.namespace, svc.name))
        if platform.gateway_image
        else None
    )
    unfilled = [model.name for model in svc.spec.models]
    revision = controller_revision(svc, with_own(svc, ())[0])
    objects = [revision, *desired(svc, platform, f"{svc.name}-abcde", port, unfilled=unfilled)]
    for found in objects:
        if found["kind"] == "Job":
            [container] = found["spec"]["template"]["spec"]["containers"]
            container["command"][-1] = "(daybreak/pod_programs/fill)"
            found["metadata"]["name"] = "(a digest of what it says)"
    return as_text(objects)


@pytest.mark.parametrize("manifest", services())
def test_service_objects_match_snapshot(manifest: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    assert applied(manifest, PLATFORM) == snapshot(extension_class=Manifests)


def of_batch(manifest: dict[str, Any], namespace: str = "default") -> list[dict[str, Any]]:
    """Return the objects of a batch."""
    metadata = {"uid": "0-0", **manifest["metadata"], "namespace": namespace}
    return batch_desired.desired(LLMBatch.from_manifest({**manifest, "metadata": metadata}), PLATFORM)


@pytest.mark.parametrize("manifest", batches())
def test_batch_objects_match_snapshot(manifest: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    assert as_text(of_batch(manifest)) == snapshot(extension_class=Manifests)


def service_of(name: str) -> LLMService | None:
    """Return the service of that name among the samples."""
    found = [each.values[0] for each in services() if each.values[0]["metadata"]["name"] == name]
    if not found:
        return None
    metadata = {"uid": "0-0", **found[0]["metadata"], "namespace": "default"}
    return LLMService.from_manifest({**found[0], "metadata": metadata})


def of_benchmark(manifest: dict[str, Any], namespace: str = "default") -> list[dict[str, Any]]:
    """Return the objects of a benchmark."""
    metadata = {"uid": "0-0", **manifest["metadata"], "namespace": namespace}
    one = LLMBenchmark.from_manifest({**manifest, "metadata": metadata})
    reference = one.spec.service_ref
    measured = target(one, service_of(reference.name) if reference is not None else None)
    return benchmark_desired.desired(one, measured, PLATFORM)


@pytest.mark.parametrize("manifest", benchmarks())
def test_benchmark_objects_match_snapshot(manifest: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    assert as_text(of_benchmark(manifest)) == snapshot(extension_class=Manifests)


def of_server(manifest: dict[str, Any], namespace: str = "default") -> list[dict[str, Any]]:
    """Return the objects of an awake ModelServer, the first of its namespace."""
    metadata = {"uid": "0-0", **manifest["metadata"], "namespace": namespace}
    one = ModelServer.from_manifest({**manifest, "metadata": metadata})
    port = PortAllocator(Cache()).of(OwnerKey.of_label(namespace, one.owner))
    return server_desired.desired(one, PLATFORM, port, one.spec.replicas)


@pytest.mark.parametrize("manifest", servers())
def test_model_server_objects_match_snapshot(manifest: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    assert as_text(of_server(manifest)) == snapshot(extension_class=Manifests)


def of_application(manifest: dict[str, Any], namespace: str = "default") -> list[dict[str, Any]]:
    """Return the objects of an awake ServeApplication, the first of its namespace."""
    metadata = {"uid": "0-0", **manifest["metadata"], "namespace": namespace}
    one = ServeApplication.from_manifest({**manifest, "metadata": metadata})
    revision = application_revisions.controller_revision(one, application_revisions.with_own(one, "", ())[0])
    port = PortAllocator(Cache()).of(OwnerKey.of_label(namespace, one.owner))
    return [revision, *application_desired.desired(one, PLATFORM, port)]


@pytest.mark.parametrize("manifest", applications())
def test_application_objects_match_snapshot(manifest: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    assert as_text(of_application(manifest)) == snapshot(extension_class=Manifests)


def test_service_objects_without_gateway_match_snapshot(snapshot: SnapshotAssertion) -> None:
    manifest = yaml.safe_load(WITHOUT_GATEWAY.read_text())
    assert applied(manifest, replace(PLATFORM, gateway_image="")) == snapshot(extension_class=Manifests)


def parts(value: Any) -> Iterator[ApiModel]:
    """Yield every part that a spec sets, itself included."""
    if isinstance(value, ApiModel):
        yield value
        for field in value.model_fields_set:
            yield from parts(getattr(value, field))
    elif isinstance(value, list):
        for each in value:
            yield from parts(each)


def test_everything_yaml_sets_every_field_except_listed_ones() -> None:
    found = list(parts(LLMServiceSpec.model_validate(yaml.safe_load(EVERYTHING.read_text())["spec"])))
    never_set = {
        f"{type(part).__name__}.{field}"
        for part in found
        for field in type(part).model_fields
        if not any(field in each.model_fields_set for each in found if type(each) is type(part))
    }
    assert never_set == LEFT_OUT


def test_samples_exist_for_each_kind_with_snapshots() -> None:
    assert len(services()) > 1
    assert batches()
    assert benchmarks()
    assert servers()
    assert applications()
