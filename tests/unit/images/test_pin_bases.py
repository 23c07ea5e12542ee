"""Base images pinned by digest: the script writes a registry's digest of a tag into the Dockerfiles."""

import json
import runpy
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "pin_bases.py"))
NotPinned = SCRIPT["NotPinned"]
DIGEST, NEWER = (f"sha256:{letter * 64}" for letter in "ab")
INDEX = "application/vnd.oci.image.index.v1+json"


class Registry:
    """A registry that gives a token to every client, and then returns the digest of one tag."""

    def __init__(self) -> None:
        self.digest, self.kind, self.requested = DIGEST, INDEX, 0
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # name of the base class
                body = json.dumps({"token": "t"}).encode() if self.path.startswith("/token?") else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_HEAD(self) -> None:  # name of the base class
                if self.headers.get("Authorization") != "Bearer t":
                    self.send_response(401)
                    realm = f'Bearer realm="http://{registry.name}/token",service="s",scope="pull"'
                    self.send_header("WWW-Authenticate", realm)
                elif self.path == "/v2/library/python/manifests/3.11" and INDEX in self.headers["Accept"]:
                    registry.requested += 1
                    self.send_response(200)
                    self.send_header("Docker-Content-Digest", registry.digest)
                    self.send_header("Content-Type", registry.kind)
                else:
                    self.send_response(404)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def images(tmp_path: Path, registry: Registry) -> Path:
    """Return a folder with two images on one base, and one image from scratch."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        text = f"ARG BASE_IMAGE={registry.name}/library/python:3.11\nFROM ${{BASE_IMAGE}}\n"
        (tmp_path / name / "Dockerfile").write_text(text)
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "Dockerfile").write_text("FROM scratch\n")
    return tmp_path


def base(images: Path, name: str = "one") -> str:
    return (images / name / "Dockerfile").read_text().splitlines()[0].removeprefix("ARG BASE_IMAGE=")


def test_pin_writes_current_digest_and_later_newer_digest(images: Path, registry: Registry) -> None:
    assert len(SCRIPT["unpinned"](images)) == 2
    assert len(SCRIPT["pin"](images)) == 2
    assert base(images) == base(images, "two") == f"{registry.name}/library/python:3.11@{DIGEST}"
    assert registry.requested == 1
    assert SCRIPT["unpinned"](images) == []
    assert SCRIPT["pin"](images) == []
    registry.digest = NEWER
    SCRIPT["pin"](images)
    assert base(images).endswith(f":3.11@{NEWER}")


@pytest.mark.parametrize(
    ("kind", "digest", "message"),
    [
        ("application/vnd.oci.image.manifest.v1+json", DIGEST, "one platform only"),
        (INDEX, "latest", "answers the digest 'latest'"),
    ],
)
def test_invalid_or_single_platform_digest_is_rejected(
    images: Path, registry: Registry, kind: str, digest: str, message: str
) -> None:
    registry.kind, registry.digest = kind, digest
    with pytest.raises(NotPinned, match=message):
        SCRIPT["pin"](images)
    assert "@" not in base(images)


def test_dockerfile_is_unchanged_if_registry_is_unreachable(images: Path, registry: Registry) -> None:
    registry.server.shutdown()
    registry.server.server_close()
    with pytest.raises(NotPinned, match="cannot be queried"):
        SCRIPT["pin"](images)
    assert "@" not in base(images)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("python:3.11", "https://registry-1.docker.io/v2/library/python/manifests/3.11"),
        ("owner/image:1@sha256:x", "https://registry-1.docker.io/v2/owner/image/manifests/1"),
        ("quay.io/owner/image:1", "https://quay.io/v2/owner/image/manifests/1"),
        ("localhost:5000/image:1", "http://localhost:5000/v2/image/manifests/1"),
    ],
)
def test_base_image_reference_is_parsed_to_manifest_url(text: str, url: str) -> None:
    assert SCRIPT["Reference"].parse(text).url == url


def test_base_image_without_tag_is_rejected() -> None:
    with pytest.raises(NotPinned, match="has no tag"):
        SCRIPT["Reference"].parse("localhost:5000/image")


def test_project_images_share_one_base_image() -> None:
    found = SCRIPT["bases"](SCRIPT["IMAGES"])
    assert {file.parent.name for file in found} == {"gateway", "operator", "ray", "ray-cpu"}
    assert len(SCRIPT["_distinct"](found)) == 1
