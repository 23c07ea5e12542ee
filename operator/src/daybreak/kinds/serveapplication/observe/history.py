"""Revisions of an application, and the one from which it is currently built: pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from daybreak.api.common.config_map import Content
from daybreak.api.common.unstructured import Manifest, mapping
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.gates.sleep_policy import gates_before
from daybreak.kinds.serveapplication.objects.marks import Marks
from daybreak.kinds.serveapplication.objects.revisions import built_of, config_map_of, files_of, with_own
from daybreak.ray.views.ray_service_view import ray_view
from daybreak.rollouts.history import History
from daybreak.rollouts.record import state_of
from daybreak.rollouts.revisions import Revision


def config_maps(written: ServeApplication, manifest: Manifest, kept: Sequence[Revision]) -> frozenset[str]:
    """Return the names of the ConfigMaps with needed code: of the requested revision and those in use."""
    own, every = with_own(written, "", kept)
    history = History(manifest, written.spec.rollout, own, every)
    named = {config_map_of(each) for each in every if each.name in history.in_use}
    return frozenset(named - {""})


def history_of(
    written: ServeApplication,
    manifest: Manifest,
    kept: Sequence[Revision],
    contents: Mapping[str, Content],
    ray_service: Manifest | None,
    ray_clusters: Sequence[Manifest],
) -> History | None:
    """Return the revisions, or None if the requested one is unknown without its code.

    Args:
        written: The application as the user has written it.
        manifest: Manifest of the application, with its status.
        kept: Revisions that are kept.
        contents: Known contents of ConfigMaps with code, by name.
        ray_service: The existing RayService.
        ray_clusters: Ray clusters of the RayService.
    """
    own = _own(written, manifest, kept, contents)
    if own is None:
        return None
    revision, every = own
    serving = _serving(manifest, ray_service, ray_clusters)
    lost = {
        each.name: why
        for each in every
        if each != revision and (why := _lost(each, contents)) and files_of(each) not in serving
    }
    history = History(manifest, written.spec.rollout, revision, every, lost=lost)
    return replace(history, as_written=_built(written, history) is None)


def built(written: ServeApplication, history: History | None) -> ServeApplication:
    """Return the application as it is currently built."""
    return (_built(written, history) if history is not None else None) or written


def _built(written: ServeApplication, history: History) -> ServeApplication | None:
    """Return the application of another revision, or None if it is built as written.

    Before any revision has answered there is none to return to. If a revision cannot be recreated, the
    current spec is the only known one.
    """
    state = history.state
    if state is None or state.last_successful_revision is None or state.current_revision not in history.known:
        return None
    found = history.named(state.current_revision)
    return built_of(written, found) if found is not None and found != history.own else None


def _own(
    written: ServeApplication,
    manifest: Manifest,
    kept: Sequence[Revision],
    contents: Mapping[str, Content],
) -> tuple[Revision, tuple[Revision, ...]] | None:
    """Return the requested revision and all known ones, or None if the requested one is unknown.

    While the files are unknown, the previous files of the same ConfigMap are used. Without previous files in
    that ConfigMap, the current revision stays the requested one.
    """
    code = written.spec.code
    name = code.config_map if code is not None else None
    if name is None:
        return with_own(written, "", kept)
    content = contents.get(name, Content(awaited=True))
    if content.digest:
        return with_own(written, content.digest, kept)
    state = state_of(mapping(manifest.get("status")))
    present = next((each for each in kept if state is not None and each.name == state.current_revision), None)
    if present is not None and config_map_of(present) == name:
        return with_own(written, files_of(present), kept)
    if not content.missing and not content.awaited:
        return with_own(written, "", kept)
    return (present, tuple(kept)) if present is not None else None


def _lost(revision: Revision, contents: Mapping[str, Content]) -> str:
    """Return the reason why a revision cannot be recreated; empty if it can, or if that is unknown."""
    name, files = config_map_of(revision), files_of(revision)
    content = contents.get(name)
    if not name or content is None:
        return ""
    if content.missing:
        return f"ConfigMap {name} no longer exists"
    changed = files and content.digest and content.digest != files
    return f"ConfigMap {name} now contains other files" if changed else ""


def _serving(
    manifest: Manifest, ray_service: Manifest | None, ray_clusters: Sequence[Manifest]
) -> frozenset[str]:
    """Return the digests of files that existing Ray clusters have read and need not get again."""
    gates = gates_before(mapping(manifest.get("status"))).values()
    if any(gate.sleep_depth is not None for gate in gates):
        return frozenset()
    ray = ray_view(ray_service)
    named = {ray.active} - {""}
    active = [each for each in ray_clusters if each["metadata"]["name"] in named]
    found = {Marks.of(each).files for each in (*active, *([ray_service] if ray_service else []))}
    return frozenset(found - {""})
