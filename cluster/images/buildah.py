"""Builds one container image with buildah and hands it to containerd, without a registry.

buildah writes the finished image straight into a folder (OCI layout), uncompressed, and that folder is piped
into containerd: each byte is written three times and not six. What the largest image leaves out:
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
"""Everything of the builder; below the cluster's folder, so that `down` unmounts and removes it."""
PATIENTLY = ("nice", "-n", "19")
"""Before a command: it leaves the processor to those that somebody waits for."""
_LAYOUTS = FOLDER / "layouts"
_SCRATCH = FOLDER / "tmp"

_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# Paths that a Debian has and nothing uses: what is lent to a build is mounted there and leaves no trace.
_CERTIFICATES_INSIDE = "/media"
_CACHE_INSIDE = "/mnt"
_UV_INSIDE = "/srv"


def layout(reference: str) -> Path:
    """Folder of a built image that containerd does not have yet."""
    return _LAYOUTS / reference.rpartition("/")[2].replace(":", "-")


def stored(reference: str) -> bool:
    """Whether buildah has the image as a base for others."""
    return bool(run([*_buildah(), "images", "--quiet", "--filter", f"reference={reference}"]).strip())


def build_base(reference: str, dockerfile: str, context: Path) -> None:
    """Build an image into buildah's own storage, for others to be based on."""
    _bud(reference, dockerfile, context, target=reference)


def build(reference: str, dockerfile: str, context: Path, base: str, *, patient: bool = False) -> None:
    """Build an image into its layout, ready for `load`.

    Args:
        reference: Its name with a tag.
        dockerfile: Text of the Dockerfile.
        context: Folder that the Dockerfile's paths are relative to.
        base: What `build_base` made, for the build argument BASE_IMAGE; empty for none.
        patient: Whether others may have the processor first.
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
        importing = subprocess.run(  # noqa: S603 -- containerd's client and a name of ours
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
    """Whether a process listens on a socket: the file of one that was killed stays."""
    with socket.socket(socket.AF_UNIX) as tried:
        try:
            tried.connect(str(path))
        except OSError:
            return False
    return True


def loaded() -> set[str]:
    """Names of the images that containerd has; empty while it does not run."""
    if not listens(paths.CONTAINERD_SOCKET):
        return set()
    return set(run(ctr("images", "list", "--quiet")).split())


def run_python(reference: str, script: Path) -> str:
    """Run a Python script in a container of a loaded image and return what it printed."""
    mount = f"type=bind,src={script},dst=/run/script.py,options=rbind:ro"
    name = f"script-{os.getpid()}"
    return run(ctr("run", "--rm", "--mount", mount, reference, name, "python", "/run/script.py"))


def _buildah() -> list[str]:
    roots = ["--root", str(FOLDER / "storage"), "--runroot", str(paths.RUN / "buildah")]
    return ["buildah", *roots, "--storage-driver", "overlay"]


def uv() -> Path:
    beside = Path(sys.executable).parent / "uv"
    found = beside if beside.exists() else shutil.which("uv")
    if found is None:
        raise ClusterError("uv is missing: run this with .daybreak/venv/bin/python")
    return Path(found)


def _certificates() -> Path | None:
    """The registries' certificates as this machine knows them: lent to the build, never in the image."""
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
    """Write the full name into the layout as containerd wants it."""
    index = json.loads((folder / "index.json").read_text())
    for manifest in index["manifests"]:
        manifest["annotations"] = {"io.containerd.image.name": reference}
    (folder / "index.json").write_text(json.dumps(index))
