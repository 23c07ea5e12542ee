"""The `ray` script of the Ray images: KubeRay's check of the GCS does not import Ray."""

import socket
import subprocess
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[2] / "images"
SCRIPT = IMAGES / "ray" / "ray.sh"


def run(*arguments: str) -> int:
    """Return the exit status of the script."""
    return subprocess.run([str(SCRIPT), *arguments], check=False, capture_output=True, timeout=30).returncode  # noqa: S603


def test_health_check_succeeds_only_if_port_accepts_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert run("health-check", "--address", f"127.0.0.1:{port}") == 0
    assert run("health-check", "--address", f"127.0.0.1:{port}") != 0
    assert run("health-check", "--address", "nobody.invalid:6379") != 0


def test_other_commands_are_passed_to_ray() -> None:
    no_such_program = 127
    for arguments in (("start", "--head"), ("health-check",), ("health-check", "--component", "x", "y")):
        assert run(*arguments) == no_such_program


@pytest.mark.parametrize("image", ["ray", "ray-cpu"])
def test_each_image_installs_ray_script(image: str) -> None:
    dockerfile = (IMAGES / image / "Dockerfile").read_text()
    assert "install -D -m 755 /build/ray.sh /opt/daybreak/bin/ray;" in dockerfile
