"""The order of a first run: every check of a requirement precedes the first build."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster import __main__ as program
from cluster import build, full, paths, with_images
from cluster.errors import ClusterError
from cluster.images import buildah, catalog
from cluster.machine import requirements
from cluster.node import cgroups
from cluster.tools.alongside import alongside
from cluster.tools.report import Report

CHECKS = (
    (requirements, "check_platform"),
    (requirements, "check_root"),
    (requirements, "check_space"),
    (cgroups, "check"),
    (build, "check_go"),
    (requirements, "install_packages"),
    (full, "_check_owner"),
)
NAMES = [name for _, name in CHECKS]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the calls in order. The stubs do not change the machine."""
    called: list[str] = []

    def record(module: object, name: str, shown: str) -> None:
        monkeypatch.setattr(module, name, lambda *_, **__: called.append(shown))

    for module, name in CHECKS:
        record(module, name, name)
    record(full, "start", "start")
    record(catalog, "build", "build images")
    record(catalog, "ensure", "load images")
    return called


def test_image_build_and_cluster_start_follow_all_checks(calls: list[str]) -> None:
    with_images.up(Report(), then=lambda: calls.append("then"))
    assert calls[: len(NAMES)] == NAMES
    # Both run in parallel.
    assert sorted(calls[len(NAMES) : -3]) == ["build images", "start"]
    assert calls[-3:] == ["load images", "then", "load images"]


@pytest.mark.parametrize(("module", "name"), CHECKS, ids=NAMES)
def test_failed_check_prevents_later_checks_build_and_start(
    module: object, name: str, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ClusterError("missing")

    monkeypatch.setattr(module, name, fail)
    with pytest.raises(ClusterError, match="missing"):
        with_images.up(Report())
    assert calls == NAMES[: NAMES.index(name)]


def test_cluster_without_images_runs_same_checks(calls: list[str]) -> None:
    full.up(Report())
    assert calls == [*NAMES, "start"]


@pytest.mark.parametrize(
    ("during_start", "expected"), [(True, ["start"]), (False, ["start", "load images", "then"])]
)
def test_images_are_neither_built_nor_loaded_again_after_failed_build(
    during_start: bool, expected: list[str], calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that fails after the cluster's start fails while the load of the images waits for it."""
    builds: list[Future[None]] = []
    loaded = threading.Event()

    @contextmanager
    def recorded(work: Callable[[], None]) -> Iterator[Future[None]]:
        with alongside(work) as future:
            builds.append(future)
            yield future

    def fail(report: Report) -> None:
        calls.append("build images")
        assert during_start or loaded.wait(60)
        raise ClusterError("no package")

    def start(report: Report) -> None:
        calls.append("start")
        if during_start:
            wait(builds, 60)

    def then() -> None:
        calls.append("then")
        loaded.set()

    monkeypatch.setattr(with_images, "alongside", recorded)
    monkeypatch.setattr(catalog, "build", fail)
    monkeypatch.setattr(full, "start", start)
    with pytest.raises(ClusterError, match="no package"):
        with_images.up(Report(), then=then)
    assert calls.count("build images") == 1
    calls.remove("build images")
    assert calls[len(NAMES) :] == expected


def test_up_with_images_runs_all_checks_and_loads_images_twice(calls: list[str]) -> None:
    assert program.main(["up", "--images"]) == 0
    assert calls[: len(NAMES)] == NAMES
    assert calls.count("load images") == 2


def test_control_plane_with_images_option_is_rejected(
    calls: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        program.main(["up", "--control-plane", "--images"])
    assert "not allowed with" in capsys.readouterr().err
    assert calls == []


def test_go_is_required_only_if_binary_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise ClusterError("Go is missing")

    monkeypatch.setattr(build, "go_version", missing)
    monkeypatch.setattr(build, "_built", build._key)
    build.check_go(build.SETS["cluster"])
    monkeypatch.setattr(build, "_built", lambda _: None)
    with pytest.raises(ClusterError, match="Go is missing"):
        build.check_go(build.SETS["cluster"])


def test_killed_containerd_has_no_loaded_images(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The file of the socket still exists."""
    file = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(file))
        left.listen()
        assert buildah.listens(file)
    assert file.exists()
    monkeypatch.setattr(paths, "CONTAINERD_SOCKET", file)
    assert buildah.loaded() == set()
