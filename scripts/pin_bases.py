"""Pin the base images by digest: set the current digest of the tag in BASE_IMAGE of each Dockerfile.

A registry can move a tag, so that a later build of the same commit produces another image. The script queries
the registry of each base image through the OCI distribution API and writes NAME:TAG@sha256:… into the
Dockerfiles. The digest identifies the image index, so that one line is valid for amd64 and arm64. The script
needs a network: run it manually (`make pin-bases`) to renew the base images, and commit the result.

    python scripts/pin_bases.py            # look up and write the digests
    python scripts/pin_bases.py --check    # fail if a base image has no digest; needs no network
"""

import argparse
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Self

IMAGES = Path(__file__).resolve().parents[1] / "images"
_BASE = re.compile(r"^ARG BASE_IMAGE=(?P<reference>\S+)$", re.MULTILINE)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_DOCKER_HUB = "registry-1.docker.io"
_SECONDS = 30


class NotPinned(Exception):
    """Base image without a known digest, with the reason."""


@dataclass(frozen=True)
class Reference:
    """Image reference in a Dockerfile: `[REGISTRY/]NAME:TAG[@DIGEST]`."""

    registry: str
    repository: str
    tag: str
    digest: str
    written: str
    """Name and tag as in the Dockerfile."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an image reference. Raises NotPinned if it has no tag."""
        written, _, digest = text.partition("@")
        name, colon, tag = written.rpartition(":")
        if not colon or "/" in tag:
            raise NotPinned(f"{text} has no tag")
        first, slash, rest = name.partition("/")
        if slash and ("." in first or ":" in first or first == "localhost"):
            return cls(first, rest, tag, digest, written)
        return cls(_DOCKER_HUB, name if slash else f"library/{name}", tag, digest, written)

    @property
    def url(self) -> str:
        """Return the URL of the image's manifest.

        Local registries are queried without TLS, as in Docker.
        """
        local = self.registry.partition(":")[0] in ("localhost", "127.0.0.1")
        return f"{'http' if local else 'https'}://{self.registry}/v2/{self.repository}/manifests/{self.tag}"


def digest_of(reference: Reference) -> str:
    """Return the digest of the image index of the tag. Raises NotPinned if it cannot be determined."""
    try:
        found, kind = _head(reference, None)
    except OSError as error:
        raise NotPinned(f"{reference.written}: {reference.registry} cannot be queried: {error}") from error
    if kind not in _INDEXES:
        raise NotPinned(f"{reference.written} is for one platform only ({kind}); use an image index")
    if not _DIGEST.fullmatch(found):
        raise NotPinned(f"{reference.written}: {reference.registry} answers the digest {found!r}")
    return found


def _head(reference: Reference, token: str | None) -> tuple[str, str]:
    request = urllib.request.Request(reference.url, method="HEAD")  # noqa: S310 - http(s) by construction
    request.add_header("Accept", ", ".join(_INDEXES))
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - the same
            kind = answer.headers.get("Content-Type", "").partition(";")[0]
            return answer.headers.get("Docker-Content-Digest", ""), kind
    except urllib.error.HTTPError as error:
        requested = error.headers.get("WWW-Authenticate", "")
        if error.code != 401 or token is not None or not requested.lower().startswith("bearer "):
            raise
    return _head(reference, _token(requested))


def _token(requested: str) -> str:
    """Return an anonymous token, as registries issue for public repositories."""
    desired = dict(re.findall(r'(\w+)="([^"]*)"', requested))
    realm = desired.pop("realm", "")
    if urllib.parse.urlsplit(realm).scheme not in ("http", "https"):
        raise OSError(f"the registry requires a token from the unsupported URL {realm!r}")
    url = f"{realm}?{urllib.parse.urlencode(desired)}"
    with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310 - checked above
        report = json.loads(answer.read(65536))
    return str(report.get("token") or report.get("access_token") or "")


def bases(images: Path) -> dict[Path, Reference]:
    """Return the base image of each Dockerfile that has one."""
    found = {}
    for file in sorted(images.glob("*/Dockerfile")):
        for match in _BASE.finditer(file.read_text()):
            found[file] = Reference.parse(match["reference"])
    return found


def pin(images: Path) -> list[str]:
    """Write the current digests if all are known, and return a description of each change."""
    named = bases(images)
    digests = {written: digest_of(reference) for written, reference in _distinct(named).items()}
    changed = []
    for file, reference in named.items():
        pinned = f"{reference.written}@{digests[reference.written]}"
        before = file.read_text()
        after = _BASE.sub(f"ARG BASE_IMAGE={pinned}", before)
        if before != after:
            file.write_text(after)
            changed.append(f"{file.parent.name}: {pinned}")
    return changed


def _distinct(named: dict[Path, Reference]) -> dict[str, Reference]:
    return {reference.written: reference for reference in named.values()}


def unpinned(images: Path) -> list[str]:
    """Return a message for each image that has a base image without a digest."""
    return [
        f"{file.parent.name}: {reference.written} has no digest"
        for file, reference in bases(images).items()
        if not _DIGEST.fullmatch(reference.digest)
    ]


def main() -> int:
    """Write or check the digests. Return 0 if all base images have one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        lines = unpinned(IMAGES)
        print("\n".join(lines) or "Every base image has a digest")
        return 1 if lines else 0
    try:
        print("\n".join(pin(IMAGES)) or "Every base image already has the current digest")
    except NotPinned as error:
        print(f"pin-bases: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
