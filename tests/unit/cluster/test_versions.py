"""The Go modules must name the versions that `versions.py` names, the one place for them."""

import re

import pytest

from cluster import build, paths, pins

REQUIRED = {
    "kubernetes": ("k8s.io/kubernetes", pins.KUBERNETES),
    "etcd": ("go.etcd.io/etcd/server/v3", pins.ETCD),
    "containerd": ("github.com/containerd/containerd/v2", pins.CONTAINERD),
    "coredns": ("github.com/coredns/coredns", pins.COREDNS),
    "kuberay": ("github.com/ray-project/kuberay/ray-operator", pins.KUBERAY),
    "helm": ("helm.sh/helm/v4", pins.HELM),
    "kwok": ("sigs.k8s.io/kwok", pins.KWOK),
}


@pytest.mark.parametrize("module", sorted(REQUIRED))
def test_go_module_requires_the_pinned_version(module: str) -> None:
    dependency, version = REQUIRED[module]
    text = (paths.GO_MODULES / module / "go.mod").read_text()
    found = re.findall(rf"^\s*(?:require )?{re.escape(dependency)} v(\S+)", text, re.MULTILINE)
    assert found == [version]


def test_every_staging_module_has_kubernetes_own_minor_and_patch() -> None:
    text = (paths.GO_MODULES / "kubernetes" / "go.mod").read_text()
    replaced = re.findall(r"^\s*(k8s\.io/\S+) => (k8s\.io/\S+) v(\S+)$", text, re.MULTILINE)
    assert len(replaced) > 20
    staging = "0." + pins.KUBERNETES.partition(".")[2]
    assert [module for module, target, version in replaced if (target, version) != (module, staging)] == []


@pytest.mark.parametrize("binary", build.SETS["all"], ids=lambda binary: binary.name)
def test_every_binary_has_its_module_with_checksums(binary: build.Binary) -> None:
    folder = paths.GO_MODULES / binary.module
    text = (folder / "go.mod").read_text()
    if binary.package == ".":
        assert (folder / "main.go").exists()
    else:
        assert binary.package in re.findall(r"^(?:tool |\t)(\S+)$", text, re.MULTILINE)
    # A module without dependencies has no go.sum.
    assert (folder / "go.sum").exists() or "require" not in text


def test_the_full_cluster_builds_whatever_a_control_plane_needs() -> None:
    assert set(build.SETS["control-plane"]) | set(build.SETS["fake-nodes"]) <= set(build.SETS["cluster"])
