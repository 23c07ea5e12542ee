"""Addons that run in the cluster as ordinary pods: CoreDNS and KubeRay's operator."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from cluster import build, paths
from cluster.images.static_image import StaticImage
from cluster.node.containerd import COREDNS_IMAGE, KUBERAY_IMAGE
from cluster.node.kubelet import DNS_ADDRESS, DOMAIN
from cluster.tools.programs import run

DNS_NAMESPACE, DNS = "kube-system", "coredns"
_DNS_PORTS = {"dns": ("UDP", 5353), "dns-tcp": ("TCP", 5353)}
"""Protocol and container port of each CoreDNS port, by name."""
KUBERAY_NAMESPACE, KUBERAY = "kuberay-system", "kuberay-operator"


@dataclass(frozen=True)
class Addon:
    """Addon to install.

    Attributes:
        namespace: Namespace of the Deployment.
        deployment: Deployment that must become available.
        manifests: All objects, as YAML documents.
        cluster_objects: Objects outside namespaces, in kubectl's notation. The addon counts as installed if
            they exist.
    """

    namespace: str
    deployment: str
    manifests: str
    cluster_objects: Sequence[str]


def coredns(upstream: bool) -> Addon:
    """Return the addon CoreDNS; `upstream` is True if the machine has a name server for external names."""
    return Addon(DNS_NAMESPACE, DNS, coredns_manifests(upstream), [f"clusterrole/system:{DNS}"])


def kuberay() -> Addon:
    """Return the addon KubeRay: its operator and CustomResourceDefinitions."""
    files = sorted(build.kuberay_crds().glob("ray.io_*.yaml"))
    crds = [f"crd/{file.stem.removeprefix('ray.io_')}.ray.io" for file in files]
    return Addon(KUBERAY_NAMESPACE, KUBERAY, kuberay_manifests(), crds)


def coredns_image() -> StaticImage:
    """Return the image that contains only CoreDNS."""
    return StaticImage(COREDNS_IMAGE, paths.BIN / "coredns", "/coredns")


def kuberay_image() -> StaticImage:
    """Return the image of KubeRay's operator, with the program at the path that KubeRay's manifests call."""
    return StaticImage(KUBERAY_IMAGE, paths.BIN / "kuberay-operator", "/manager")


def corefile(upstream: bool) -> str:
    """Return CoreDNS' configuration.

    Args:
        upstream: True if the machine has a name server for names outside the cluster.
    """
    forward = "    forward . /etc/resolv.conf\n" if upstream else ""
    return (
        ".:5353 {\n"
        "    errors\n"
        "    health :8080\n"
        "    ready :8181\n"
        f"    kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{\n"
        "        pods insecure\n"
        "        fallthrough in-addr.arpa ip6.arpa\n"
        "        ttl 5\n"
        "    }\n"
        f"{forward}"
        "    cache 5\n"
        "    reload\n"
        "}\n"
    )


def coredns_manifests(upstream: bool) -> str:
    """Return CoreDNS' objects as YAML: account, permissions, configuration, Deployment and Service."""
    meta = {"name": DNS, "namespace": DNS_NAMESPACE}
    labels = {"k8s-app": "kube-dns"}
    objects: list[dict[str, Any]] = [
        *_coredns_access(meta),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"Corefile": corefile(upstream)}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**meta, "labels": labels},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": _coredns_pod()},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": DNS_NAMESPACE, "labels": labels},
            "spec": {
                "clusterIP": DNS_ADDRESS,
                "selector": labels,
                "ports": [
                    {"name": name, "protocol": kind, "port": 53, "targetPort": port}
                    for name, (kind, port) in _DNS_PORTS.items()
                ],
            },
        },
    ]
    return yaml.safe_dump_all(objects)


def _coredns_access(meta: dict[str, str]) -> list[dict[str, Any]]:
    """Return CoreDNS' service account and its permissions."""
    rules = [
        {
            "apiGroups": [""],
            "resources": ["endpoints", "services", "pods", "namespaces"],
            "verbs": ["list", "watch"],
        },
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": f"system:{DNS}"},
            "rules": rules,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"system:{DNS}"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": f"system:{DNS}",
            },
            "subjects": [{"kind": "ServiceAccount", **meta}],
        },
    ]


def _coredns_pod() -> dict[str, Any]:
    """Return the spec of CoreDNS' pod."""
    container = {
        "name": DNS,
        "image": COREDNS_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"name": name, "protocol": kind, "containerPort": port}
            for name, (kind, port) in _DNS_PORTS.items()
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": 8080},
            "failureThreshold": 5,
            "timeoutSeconds": 5,
        },
        "resources": {"requests": {"cpu": "20m", "memory": "40Mi"}, "limits": {"memory": "170Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
    }
    return {
        "serviceAccountName": DNS,
        "priorityClassName": "system-cluster-critical",
        "dnsPolicy": "Default",
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": DNS}}],
    }


def kuberay_manifests() -> str:
    """Return KubeRay's objects as YAML: its kustomization with the local image in a dedicated namespace."""
    folder = paths.CLUSTER / "manifests" / "kuberay"
    folder.mkdir(parents=True, exist_ok=True)
    name, _, tag = KUBERAY_IMAGE.rpartition(":")
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": KUBERAY_NAMESPACE,
        "resources": [os.path.relpath(build.kuberay_manifests() / "default", folder)],
        "images": [{"name": "quay.io/kuberay/operator", "newName": name, "newTag": tag}],
    }
    text = yaml.safe_dump(kustomization)
    recipe, result = folder / "kustomization.yaml", folder / "rendered.yaml"
    if not result.exists() or recipe.read_text() != text:
        recipe.write_text(text)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KUBERAY_NAMESPACE}}
        rendered = run([paths.BIN / "kubectl", "kustomize", folder])
        # The result is not parsed: PyYAML needs 10 s for KubeRay's definitions, kubectl needs 4 s.
        result.write_text(f"{yaml.safe_dump(namespace)}---\n{rendered}")
    return result.read_text()
