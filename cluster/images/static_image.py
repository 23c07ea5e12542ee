"""Container images of one static program, written directly without a builder or a base image.

They are for the programs that this package builds and the cluster runs as pods: pause, CoreDNS and KubeRay's
operator. The image is an OCI layout in a tar file, with identical bytes for an identical program.
"""

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

REGISTRY = "daybreak.local"
"""Registry in the names of local images; it does not exist, so no image is ever pulled from it."""
USER = 65532
"""User and group of the program: the number of "nonroot" in other images without a user database."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class StaticImage:
    """Image to write.

    Attributes:
        reference: Name of the image with a tag.
        program: Static program.
        path: Path of the program in the image, also the entry point.
    """

    reference: str
    program: Path
    path: str

    def write(self, archive: Path, machine: str) -> str:
        """Write the image as a tar file and return its manifest's digest, by which containerd identifies it.

        Args:
            archive: File to write.
            machine: Processor, as in `platform.machine()`.
        """
        layer = self._layer()
        config = _json(
            {
                "architecture": _ARCHITECTURES.get(machine, machine),
                "os": "linux",
                "config": {"User": f"{USER}:{USER}", "Entrypoint": [self.path], "WorkingDir": "/"},
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            }
        )
        manifest = _json(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
                "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
            }
        )
        named = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
        named["annotations"] = {"io.containerd.image.name": self.reference}
        index = _json({"schemaVersion": 2, "manifests": [named]})
        with tarfile.open(archive, "w") as tar:
            _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
            _add(tar, "index.json", index)
            for blob in (config, manifest, layer):
                _add(tar, f"blobs/sha256/{_digest(blob).removeprefix('sha256:')}", blob)
        return _digest(manifest)

    def _layer(self) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            _add(tar, self.path.lstrip("/"), self.program.read_bytes(), mode=0o755)
        return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _descriptor(kind: str, content: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
