"""Build one container image with buildah and import it into containerd, without a registry.

buildah writes the finished image directly into a folder (OCI layout), uncompressed. The folder is piped into
containerd: each byte is written three times instead of six. For the parts that the largest image omits, see
docs/decisions/0008-the-cpu-image-has-no-cuda.md.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from cluster import paths
from cluster.errors import ClusterError
from cluster.node.containerd import ctr
from cluster.tools.programs import run

FOLDER = paths.CLUSTER / "images"
"""Folder of the builder's files; below the cluster's folder, so that `down` unmounts and removes it."""
PATIENTLY = ("nice", "-n", "19")
"""Command prefix that runs a command at the lowest CPU priority, after interactive work."""
_LAYOUTS = FOLDER / "layouts"
_SCRATCH = FOLDER / "tmp"

_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# Unused paths of a Debian system: a build mounts borrowed files there, which leaves no trace.
_CERTIFICATES_INSIDE = "/media"
_CACHE_INSIDE = "/mnt"
_UV_INSIDE = "/srv"


def layout(reference: str) -> Path:
    """Return the folder of a built image that containerd does not have yet."""
    return _LAYOUTS / reference.rpartition("/")[2].replace(":", "-")


def stored(reference: str) -> bool:
    """Return True if buildah stores the image as a base for others."""
    return bool(run([*_buildah(), "images", "--quiet", "--filter", f"reference={reference}"]).strip())


def build_base(reference: str, dockerfile: str, context: Path) -> None:
    """Build an image into buildah's storage, as a base for others."""
    _bud(reference, dockerfile, context, target=reference)


def build(reference: str, dockerfile: str, context: Path, base: str, *, patient: bool = False) -> None:
    """Build an image into its layout, ready for `load`.

    Args:
        reference: Name of the image with a tag.
        dockerfile: Text of the Dockerfile.
        context: Folder that the Dockerfile's paths are relative to.
        base: Image made by `build_base`, for the build argument BASE_IMAGE; empty for none.
        patient: True to give other processes priority for the CPU.
    """
    finished = layout(reference)
    partial = finished.with_name(f"{finished.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    arguments = {"BASE_IMAGE": base} if base else {}
    target = f"oci:{partial}:{reference}"
    _bud(reference, dockerfile, context, target=target, arguments=arguments, patient=patient)
    _name(partial, reference)
    partial.rename(finished)


def _bud(
    reference: str,
    dockerfile: str,
    context: Path,
    *,
    target: str,
    arguments: Mapping[str, str] | None = None,
    patient: bool = False,
) -> None:
    _SCRATCH.mkdir(parents=True, exist_ok=True)
    file = _SCRATCH / f"{layout(reference).name}.Dockerfile"
    file.write_text(dockerfile)
    command = [
        *(PATIENTLY if patient else ()),
        *_buildah(),
        "bud",
        "--quiet",
        "--isolation",
        "chroot",
        "--layers=false",
    ]
    for name, value in {**_build_arguments(), **(arguments or {})}.items():
        command.append(f"--build-arg={name}={value}")
    command += [f"--volume={source}:{inside}" for source, inside in _mounts().items()]
    run(
        [*command, "--tag", target, "--file", str(file), str(context)],
        environment={"TMPDIR": str(_SCRATCH)},
        downloads=f"Python packages of the image {reference}",
    )
    file.unlink()


def load(reference: str) -> None:
    """Pipe a built image into containerd and remove its layout."""
    folder = layout(reference)
    with subprocess.Popen(["tar", "-c", "."], cwd=folder, stdout=subprocess.PIPE) as archive:  # noqa: S607
        importing = subprocess.run(  # noqa: S603 -- containerd's client and Daybreak's image name
            ctr("images", "import", "--local", "-"),
            stdin=archive.stdout,
            capture_output=True,
            text=True,
            check=False,
        )
    if importing.returncode or archive.returncode:
        lines = importing.stderr.strip().splitlines()
        raise ClusterError(f"containerd did not take {reference}: {lines[-1] if lines else 'tar failed'}")
    shutil.rmtree(folder)


def listens(path: Path) -> bool:
    """Return True if a process listens on the socket; the file of a killed process remains."""
    with socket.socket(socket.AF_UNIX) as tried:
        try:
            tried.connect(str(path))
        except OSError:
            return False
    return True


def loaded() -> set[str]:
    """Return the names of the images in containerd, or an empty set if containerd does not run."""
    if not listens(paths.CONTAINERD_SOCKET):
        return set()
    return set(run(ctr("images", "list", "--quiet")).split())


def run_python(reference: str, script: Path) -> str:
    """Run a Python script in a container of a loaded image and return its output."""
    mount = f"type=bind,src={script},dst=/run/script.py,options=rbind:ro"
    name = f"script-{os.getpid()}"
    return run(ctr("run", "--rm", "--mount", mount, reference, name, "python", "/run/script.py"))


def _buildah() -> list[str]:
    roots = ["--root", str(FOLDER / "storage"), "--runroot", str(paths.RUN / "buildah")]
    return ["buildah", *roots, "--storage-driver", "overlay"]


def uv() -> Path:
    """Return the path of uv, which is installed in the Python environment or on the machine."""
    beside = Path(sys.executable).parent / "uv"
    found = beside if beside.exists() else shutil.which("uv")
    if found is None:
        raise ClusterError("uv is missing: run this with .daybreak/venv/bin/python")
    return Path(found)


def _certificates() -> Path | None:
    """Return this machine's certificate file for registries, mounted into builds but never in the image."""
    file = Path(os.environ.get("SSL_CERT_FILE", _CERTIFICATES))
    return file.resolve() if file.exists() else None


def _mounts() -> Mapping[str, str]:
    cache = run([uv(), "cache", "dir"]).strip()
    Path(cache).mkdir(parents=True, exist_ok=True)
    mounts = {cache: _CACHE_INSIDE, str(uv().parent): f"{_UV_INSIDE}:ro"}
    if certificates := _certificates():
        mounts[str(certificates.parent)] = f"{_CERTIFICATES_INSIDE}:ro"
    return mounts


def _build_arguments() -> Mapping[str, str]:
    arguments = {"UV": f"{_UV_INSIDE}/uv", "UV_CACHE_DIR": _CACHE_INSIDE}
    if certificates := _certificates():
        arguments["SSL_CERT_FILE"] = f"{_CERTIFICATES_INSIDE}/{certificates.name}"
    return arguments


def _name(folder: Path, reference: str) -> None:
    """Write the full image name into the layout in the form that containerd requires."""
    index = json.loads((folder / "index.json").read_text())
    for manifest in index["manifests"]:
        manifest["annotations"] = {"io.containerd.image.name": reference}
    (folder / "index.json").write_text(json.dumps(index))
