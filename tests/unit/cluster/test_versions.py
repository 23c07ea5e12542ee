"""The Go modules name the versions of `versions.py`, their only source, and share all other versions."""

import re
from pathlib import Path

import pytest

from cluster import addons, build, paths, pins

GO_MOD = paths.GO_MODULE / "go.mod"
CONTAINERD = build.CONTAINERD[0].module / "go.mod"
KUBERAY = build.KUBERAY.module / "go.mod"
REQUIRED = {
    "k8s.io/kubernetes": (GO_MOD, pins.KUBERNETES),
    "go.etcd.io/etcd/server/v3": (GO_MOD, pins.ETCD),
    "github.com/containerd/containerd/v2": (CONTAINERD, pins.CONTAINERD),
    "github.com/coredns/coredns": (GO_MOD, pins.COREDNS),
    "helm.sh/helm/v4": (GO_MOD, pins.HELM),
    "sigs.k8s.io/kwok": (GO_MOD, pins.KWOK),
    "github.com/ray-project/kuberay/ray-operator": (KUBERAY, pins.KUBERAY),
}
OWN = {
    CONTAINERD: {"k8s.io/cri-api", "k8s.io/cri-streaming"},
    KUBERAY: {
        "k8s.io/api",
        "k8s.io/apiextensions-apiserver",
        "k8s.io/apimachinery",
        "k8s.io/apiserver",
        "k8s.io/client-go",
        "k8s.io/component-base",
        "sigs.k8s.io/controller-runtime",
    },
}
"""Modules that these programs need in another version: docs/decisions/0021-one-go-module.md."""


def required(go_mod: Path) -> dict[str, str]:
    """Return the version of each module that a go.mod requires."""
    return dict(re.findall(r"^\t(\S+) (v\S+)(?: // indirect)?$", go_mod.read_text(), re.MULTILINE))


def replaced(go_mod: Path) -> dict[str, str]:
    """Return the version of each module that a go.mod replaces."""
    found = re.findall(r"^(?:\t|replace )(\S+) => (\S+) (v\S+)$", go_mod.read_text(), re.MULTILINE)
    assert all(module == target for module, target, _ in found)
    return {module: version for module, _, version in found}


@pytest.mark.parametrize("module", sorted(REQUIRED))
def test_a_go_module_requires_the_pinned_version(module: str) -> None:
    go_mod, version = REQUIRED[module]
    assert required(go_mod)[module] == f"v{version}"
    assert module not in replaced(go_mod)


def test_every_staging_module_has_kubernetes_own_minor_and_patch() -> None:
    staging = "v0." + pins.KUBERNETES.partition(".")[2]
    found = {
        module: version
        for module, version in replaced(GO_MOD).items()
        if module.startswith("k8s.io/") and re.fullmatch(r"v0\.\d+\.\d+", version)
    }
    assert len(found) > 20
    assert set(found.values()) == {staging}


@pytest.mark.parametrize("go_mod", sorted(OWN), ids=lambda go_mod: go_mod.parent.name)
def test_separate_go_module_differs_only_in_listed_versions(go_mod: Path) -> None:
    """Each module in a second version needs a second download and a second compilation."""
    others, here = required(GO_MOD) | replaced(GO_MOD), required(go_mod) | replaced(go_mod)
    differ = {module for module, version in here.items() if others.get(module, version) != version}
    assert differ == OWN[go_mod]


@pytest.mark.parametrize("binary", build.SETS["all"], ids=lambda binary: binary.name)
def test_every_binary_is_local_package_or_tool_of_its_module(binary: build.Binary) -> None:
    assert (binary.module / "go.sum").exists()
    if binary.package.startswith("./"):
        assert (binary.module / binary.package / "main.go").exists()
    else:
        text = (binary.module / "go.mod").read_text()
        assert binary.package in re.findall(r"^(?:tool |\t)(\S+)$", text, re.MULTILINE)


def test_coredns_has_the_plugins_of_its_configuration_and_no_others() -> None:
    main = (paths.GO_MODULE / build.COREDNS.package / "main.go").read_text()
    plugins = re.findall(r'^\t_ "github.com/coredns/coredns/plugin/(\S+)"$', main, re.MULTILINE)
    named = re.findall(r"^    (\w+)", addons.corefile(upstream=True), re.MULTILINE)
    assert sorted(plugins) == sorted(named)


def test_cluster_binaries_include_control_plane_binaries() -> None:
    assert set(build.SETS["control-plane"]) <= set(build.SETS["cluster"])
