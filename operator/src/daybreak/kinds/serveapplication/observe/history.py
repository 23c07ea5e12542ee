"""Which revisions an application has, and what it is built of at present: pure."""

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
    """Names of the ConfigMaps whose files count: of what is asked for, and of the revisions in use."""
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
    """Its revisions; None: which one it asks for is not known, since its code is looked for, or missing.

    Args:
        written: The application as the person has written it.
        manifest: The same with its status.
        kept: The revisions that are kept.
        contents: What is known of ConfigMaps with code, by their names.
        ray_service: The RayService that is there.
        ray_clusters: Its Ray clusters.
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
    """The application as it is built at present."""
    return (_built(written, history) if history is not None else None) or written


def _built(written: ServeApplication, history: History) -> ServeApplication | None:
    """The application of another revision than it is written; None: as it is written.

    Before anything has answered there is nothing to go back to, and where a revision cannot be made again
    what is written is all that is known.
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
    """The revision that is asked for, and all that are known; None: it is not known.

    As long as nobody can tell the files, they are those of before; where there is no before in that
    ConfigMap, nothing else is asked for.
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
    """Why a revision cannot be made again; empty: it can, or nobody can tell."""
    name, files = config_map_of(revision), files_of(revision)
    content = contents.get(name)
    if not name or content is None:
        return ""
    if content.missing:
        return f"ConfigMap {name} is not there any more"
    changed = files and content.digest and content.digest != files
    return f"ConfigMap {name} holds other files now" if changed else ""


def _serving(
    manifest: Manifest, ray_service: Manifest | None, ray_clusters: Sequence[Manifest]
) -> frozenset[str]:
    """Digests of the files that the Ray clusters have read that are there, and need not be made again."""
    gates = gates_before(mapping(manifest.get("status"))).values()
    if any(gate.sleep_depth is not None for gate in gates):
        return frozenset()
    ray = ray_view(ray_service)
    named = {ray.active} - {""}
    active = [each for each in ray_clusters if each["metadata"]["name"] in named]
    found = {Marks.of(each).files for each in (*active, *([ray_service] if ray_service else []))}
    return frozenset(found - {""})
