"""Helm, kubectl and other projects' CRDs, as the chart tests use them."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".daybreak" / "bin"
CHART = ROOT / "charts" / "daybreak"
EVERYTHING = Path(__file__).parent / "values-everything.yaml"
NAMESPACE = "daybreak-system"


class ToolFailed(Exception):
    """A tool that ended with an error; the message is what it said."""


def program(name: str) -> Path:
    """Return the path of a tool: the one built here, otherwise the one on PATH.

    Raises ToolFailed when there is none: a test that needs it fails, it is not skipped.
    """
    built = BIN / name
    found = str(built) if built.exists() else shutil.which(name)
    if found is None:
        raise ToolFailed(f"{name} is missing: `make test` builds it, or put it on PATH")
    return Path(found)


def run(*command: str | Path, stdin: str | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Run a tool and return its standard output. Raises ToolFailed with its error output."""
    done = subprocess.run(  # noqa: S603 - fixed tools, arguments from the tests
        [str(part) for part in command],
        input=stdin,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ToolFailed(
            f"{command[0]} ended with {done.returncode}: {done.stderr.strip()} {done.stdout.strip()}"
        )
    return done.stdout


@dataclass(frozen=True)
class Helm:
    """Helm with a cluster, or with none."""

    kubeconfig: Path | None = None

    def __call__(self, *arguments: str | Path) -> str:
        """Run helm and return what it prints. No setting of the machine's user has a say."""
        environment = {
            "KUBECONFIG": str(self.kubeconfig or os.devnull),
            "HELM_NAMESPACE": "",
            "HELM_DRIVER": "secret",
        }
        return run(program("helm"), *arguments, environment=environment)

    def template(self, *arguments: str | Path, namespace: str = NAMESPACE) -> list[Manifest]:
        """Render the chart and return its objects."""
        text = self("template", "daybreak", CHART, "--namespace", namespace, *arguments)
        return load(text)


def of_kind(manifests: Iterable[Manifest], kind: str) -> list[Manifest]:
    """Return the objects of a kind."""
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def one(manifests: Iterable[Manifest], kind: str) -> Manifest:
    """Return the only object of a kind."""
    (found,) = of_kind(manifests, kind)
    return found


def load(text: str) -> list[Manifest]:
    """Return the objects of YAML documents; libyaml is used since the rendered chart is 700 KB."""
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def dump(manifests: Iterable[Manifest]) -> str:
    """Return objects as YAML documents."""
    text: str = yaml.dump_all(list(manifests), Dumper=yaml.CSafeDumper, sort_keys=False)
    return text


@dataclass(frozen=True)
class GoModule:
    """Another project's published source, taken as a Go module: pinned, and checked by its sum."""

    path: str
    version: str
    checksum: str
    """Checksum in go.sum's format: the download must match it exactly."""

    def folder(self) -> Path:
        """Return the module's unpacked files, downloaded if they do not exist yet.

        Raises ToolFailed when they are not what they were.
        """
        answer = json.loads(run(program("go"), "mod", "download", "-json", f"{self.path}@{self.version}"))
        if answer["Sum"] != self.checksum:
            raise ToolFailed(f"{self.path}@{self.version} is {answer['Sum']}, not {self.checksum}")
        return Path(answer["Dir"])


ARGO_CD = GoModule(
    "github.com/argoproj/argo-cd/v3", "v3.5.7", "h1:Xm1BF+I5OgDKUG3SDK49vn2/Y5AMyaNVko+/JT08gj0="
)
PROMETHEUS_OPERATOR = GoModule(
    "github.com/prometheus-operator/prometheus-operator",
    "v0.85.0",
    "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
)
GATEWAY_API = GoModule("sigs.k8s.io/gateway-api", "v1.4.1", "h1:NPxFutNkKNa8UfLd2CMlEuhIPMQgDQ6DXNKG9sHbJU8=")


def gateway_api_crds() -> list[Path]:
    """Return the files with the CRDs of the Gateway API's Gateway and HTTPRoute."""
    folder = GATEWAY_API.folder() / "config" / "crd" / "standard"
    return [folder / f"gateway.networking.k8s.io_{plural}.yaml" for plural in ("gateways", "httproutes")]


def argo_crds() -> Path:
    """Return the file with the CRD of Argo CD's Application."""
    return ARGO_CD.folder() / "manifests" / "crds" / "application-crd.yaml"


def monitor_crds() -> list[Path]:
    """Return the files with the CRDs of ServiceMonitor and PodMonitor."""
    folder = PROMETHEUS_OPERATOR.folder() / "example" / "prometheus-operator-crd"
    return [folder / f"monitoring.coreos.com_{plural}.yaml" for plural in ("servicemonitors", "podmonitors")]
