"""Build the cluster's programs from Go modules, at the versions of the go.mod files under `go/`.

The programs share most of their dependencies. With one version of each package, Go compiles it once instead
of once per program (docs/decisions/0021-one-go-module.md). A binary is rebuilt only if the module's files,
the program's own files or the flags changed.
"""

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster import paths, pins
from cluster.control_plane.fake_nodes import STAGES
from cluster.errors import ClusterError
from cluster.tools.locks import lock
from cluster.tools.programs import run
from cluster.tools.report import Report

MINIMUM_GO = (1, 26, 6)
_VERSION = "k8s.io/component-base/version"


@dataclass(frozen=True)
class Binary:
    """Program to build.

    Attributes:
        name: File in `.daybreak/bin`.
        package: Go package to build. A package that begins with `./` is a folder of the module.
        links: Other names of the same file.
        variables: Go variables set at link time (`-X`), mostly the version that the program reports.
        minutes: Expected minutes of a first build on two cores, after the binaries before it, for the
            progress line.
        module: Folder with the go.mod and go.sum.
    """

    name: str
    package: str
    links: Sequence[str] = ()
    variables: Sequence[str] = ()
    minutes: float = 1.0
    module: Path = paths.GO_MODULE


_MAJOR, _MINOR, _ = pins.KUBERNETES.split(".")
KUBERNETES = Binary(
    "kubernetes",
    "./kubernetes",
    links=("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"),
    variables=(
        f"{_VERSION}.gitVersion=v{pins.KUBERNETES}",
        f"{_VERSION}.gitMajor={_MAJOR}",
        f"{_VERSION}.gitMinor={_MINOR}",
        f"{_VERSION}.gitTreeState=clean",
    ),
    minutes=8,
)
ETCD = Binary("etcd", "go.etcd.io/etcd/server/v3")
_CONTAINERD = "github.com/containerd/containerd/v2"
CONTAINERD = tuple(
    Binary(
        name,
        f"{_CONTAINERD}/cmd/{name}",
        variables=(f"{_CONTAINERD}/version.Version={pins.CONTAINERD}",),
        minutes=1 if name == "containerd" else 0.2,
        module=paths.GO_MODULE / "containerd",
    )
    for name in ("containerd", "containerd-shim-runc-v2", "ctr")
)
PAUSE = Binary("pause", "./pause", minutes=0.1)
COREDNS = Binary("coredns", "./coredns", minutes=0.5)
KUBERAY = Binary(
    "kuberay-operator",
    "github.com/ray-project/kuberay/ray-operator",
    minutes=2,
    module=paths.GO_MODULE / "kuberay",
)
KWOK = Binary(
    "kwok",
    "sigs.k8s.io/kwok/cmd/kwok",
    variables=(f"sigs.k8s.io/kwok/pkg/consts.Version={pins.KWOK}",),
    minutes=0.5,
)
HELM = Binary(
    "helm",
    "helm.sh/helm/v4/cmd/helm",
    variables=(f"helm.sh/helm/v4/internal/version.version=v{pins.HELM}",),
    minutes=2,
)
KUBECONFORM = Binary("kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform", minutes=0.1)

SETS: dict[str, tuple[Binary, ...]] = {
    "control-plane": (ETCD, KUBERNETES),
    "fake-nodes": (KWOK,),
    "chart": (HELM,),
    "tests": (ETCD, KUBERNETES, KUBERAY, KWOK, HELM, KUBECONFORM),
    "cluster": (ETCD, KUBERNETES, *CONTAINERD, PAUSE, COREDNS, KUBERAY, HELM),
    "all": (ETCD, KUBERNETES, *CONTAINERD, PAUSE, COREDNS, KUBERAY, KWOK, HELM, KUBECONFORM),
}
"""Programs to build, by purpose."""


def build(binaries: Iterable[Binary], report: Report) -> None:
    """Build missing and outdated binaries, and copy KubeRay's manifests and kwok's stages.

    The manifests and stages are in the modules of KubeRay and kwok.
    """
    desired = list(binaries)
    paths.BIN.mkdir(parents=True, exist_ok=True)
    for binary in desired:
        # Each binary has its own lock: `make lint` needs Helm and must not wait until Kubernetes is built.
        with lock(f"build-{binary.name}"):
            _build_one(binary, report)
    with lock("build"):
        if KWOK in desired:
            _copy_stages()
        if KUBERAY in desired:
            kuberay_manifests()


def _build_one(binary: Binary, report: Report) -> None:
    """Build a program unless its binary is up to date, and create the links to it."""
    for _, key in _outdated([binary]):
        version = go_version()
        with report.step(f"build {binary.name}", expect_seconds=binary.minutes * 60):
            _build(binary)
        _key_file(binary).parent.mkdir(exist_ok=True)
        _key_file(binary).write_text(f"{key} {version}\n")
    for link in binary.links:
        _link(paths.BIN / link, binary.name)


def check_go(binaries: Iterable[Binary]) -> None:
    """Raise an error if a binary must be built and Go is missing or too old."""
    if _outdated(binaries):
        go_version()


def _outdated(desired: Iterable[Binary]) -> list[tuple[Binary, str]]:
    """Return the binaries to build, each with its future key."""
    return [(binary, key) for binary in desired if (key := _key(binary)) != _built(binary)]


def go_version() -> str:
    """Return the version of the installed Go, or raise an error if Go is missing or too old."""
    go = shutil.which("go")
    desired = ".".join(map(str, MINIMUM_GO))
    if go is None:
        raise ClusterError(f"Go is missing: install Go {desired} or newer and put it on the PATH")
    text = run([go, "env", "GOVERSION"]).strip()
    found = parse_go_version(text)
    if found < MINIMUM_GO:
        raise ClusterError(f"Go {desired} or newer is needed, this machine has {text or 'a broken one'}")
    return text


def parse_go_version(text: str) -> tuple[int, int, int]:
    """Parse major, minor and patch from `go1.26.8`, `go1.27rc1` and the like; return zeros for other text."""
    found = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else (0, 0, 0)


def key(files: Sequence[tuple[str, bytes]], flags: Sequence[str]) -> str:
    """Return a hash of the module's files and the flags."""
    digest = hashlib.sha256("\0".join([*flags, platform.machine()]).encode())
    for name, content in sorted(files):
        digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def kuberay_manifests() -> Path:
    """Copy KubeRay's `config/` folder (CRDs and kustomize) out of its Go module, without a build."""
    target = paths.SHARE / f"kuberay-{pins.KUBERAY}"
    if not target.exists():
        _copy_tree(_module_directory(KUBERAY.module, KUBERAY.package) / "config", target)
    return target


def kuberay_crds() -> Path:
    """Return the folder with KubeRay's CustomResourceDefinitions."""
    return kuberay_manifests() / "crd" / "bases"


def _key(binary: Binary) -> str:
    files = [binary.module / name for name in ("go.mod", "go.sum")]
    if binary.package.startswith("./"):
        files += (binary.module / binary.package).glob("*.go")
    return key([(file.name, file.read_bytes()) for file in files], [binary.package, *_flags(binary)])


def _key_file(binary: Binary) -> Path:
    return paths.BIN / ".keys" / binary.name


def _built(binary: Binary) -> str | None:
    """Return the key of the existing binary, or None if the binary is missing or incomplete."""
    if not (paths.BIN / binary.name).exists() or not _key_file(binary).exists():
        return None
    return _key_file(binary).read_text().split()[0]


def _flags(binary: Binary) -> list[str]:
    variables = "".join(f" -X {variable}" for variable in binary.variables)
    # The linker omits debug information (-s -w); omitting it in the compiler saves a twelfth of the time.
    return ["-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", f"-ldflags=-s -w{variables}"]


def _build(binary: Binary) -> None:
    target = paths.BIN / binary.name
    partial = target.with_name(f".{binary.name}.partial")
    # `go run` keeps its link result in Go's cache, `go build` links again each time. For Kubernetes, that
    # is 1.5 s instead of 16 s.
    _go(binary.module, "run", *_flags(binary), "-exec", "cp", binary.package, str(partial))
    partial.replace(target)


def _go(module: Path, *arguments: str) -> str:
    """Run go in one of the local modules, without cgo: the programs then run in images with nothing else."""
    environment = {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
    return run(
        ["go", *arguments],
        directory=module,
        environment=environment,
        downloads="Go modules",
    )


def _module_directory(module: Path, dependency: str) -> Path:
    go_version()
    _go(module, "mod", "download", dependency)
    return Path(_go(module, "list", "-m", "-f", "{{.Dir}}", dependency).strip())


def _copy_stages() -> None:
    target = paths.SHARE / "kwok-stages.yaml"
    marker = f"# kwok {pins.KWOK}\n"
    if target.exists() and target.read_text().startswith(marker):
        return
    folder = _module_directory(KWOK.module, "sigs.k8s.io/kwok") / "kustomize" / "stage"
    texts = [file.read_text() for stage in STAGES for file in sorted(folder.glob(stage))]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(marker + "---\n".join(texts))


def _copy_tree(source: Path, target: Path) -> None:
    """Copy a folder out of Go's read-only module cache, and make the copy deletable."""
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(source, partial, copy_function=shutil.copyfile)
    for folder in (partial, *(path for path in partial.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    partial.rename(target)


def _link(link: Path, target: str) -> None:
    if not (link.is_symlink() and os.readlink(link) == target):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
