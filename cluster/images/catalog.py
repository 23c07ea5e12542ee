"""Container images of the embedded cluster, built from `images/` and imported into its containerd.

    python -m cluster.images load          build missing images and import them into containerd
    python -m cluster.images build NAME    build one image, for example `ray` for GPUs, into a folder
    python -m cluster.images list          names and tags, and which of them containerd has
    python -m cluster.images engine-args   the engine arguments of the vLLM in the image, as JSON

A tag is a hash of all inputs of the image. An image is therefore rebuilt and loaded only if an input changed,
and no change is missed.
"""

import argparse
import hashlib
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from cluster import paths
from cluster.errors import ClusterError
from cluster.images import buildah, debian, tiny_model
from cluster.images.static_image import REGISTRY
from cluster.tools.locks import lock
from cluster.tools.report import Report

MODELS: Mapping[str, int] = {"tiny": 0, "tiny-2": 1}
"""Seed of each model, by name under /models in the ray-cpu image."""
ADAPTERS: Mapping[str, tuple[int, int]] = {"one": (11, 4), "two": (12, 4), "rank-64": (13, 64)}
"""Seed and rank of each adapter, by name under /adapters in the tiny-model image."""
WANTED = ("operator", "gateway", "ray-cpu", "tiny-model")
"""Images that the embedded cluster runs."""
ENGINES = "engines"
"""Image with engines of other projects, for stories."""
OURS = ("operator", "gateway")
"""Images of Daybreak's own programs."""

_IMAGES = paths.REPOSITORY / "images"
_ENGINES = Path(__file__).parent / "engines"
_RUNTIME = paths.REPOSITORY / "runtime"
_OF_BOTH_RAY_IMAGES = (_IMAGES / "ray" / "install_runtime.py", _IMAGES / "ray" / "ray.sh", _RUNTIME)


@dataclass(frozen=True)
class Recipe:
    """Recipe of one image.

    Attributes:
        dockerfile: Text of the Dockerfile. Images of the embedded cluster may add a line to the file of
            `images/`.
        sources: Files and folders of the repository that are inputs of the image.
        based: True if the image is built on the image `base`.
        context: Function that creates the folder to which the Dockerfile's paths are relative.
        parameters: Other inputs that change the result.
    """

    dockerfile: str
    sources: tuple[Path, ...]
    based: bool
    context: Callable[[Path], Path]
    parameters: tuple[str, ...] = ()


def _text(image: str) -> str:
    return (_IMAGES / image / "Dockerfile").read_text()


def _base_context(folder: Path) -> Path:
    debian.write(folder / "base.tar")
    return folder


def _ray_cpu_context(folder: Path) -> Path:
    for image in ("ray", "ray-cpu"):
        shutil.copytree(_IMAGES / image, folder / "images" / image)
    shutil.copytree(_RUNTIME, folder / "runtime")
    for name, seed in MODELS.items():
        tiny_model.write(folder / "models" / name, seed)
    return folder


def _model_context(folder: Path) -> Path:
    tiny_model.write(folder, MODELS["tiny"])
    for name, (seed, rank) in ADAPTERS.items():
        tiny_model.write_adapter(folder / "adapters" / name, seed, rank=rank)
    return folder


def _engines_context(folder: Path) -> Path:
    shutil.copytree(_ENGINES, folder / "engines")
    tiny_model.write(folder / "model", MODELS["tiny"])
    return folder


def recipes() -> Mapping[str, Recipe]:
    """Return the recipe of every image that can be built here, by name."""
    model = (Path(tiny_model.__file__),)
    # The tokenizer is trained on Python's sources.
    made = (f"python {sys.version_info[:3]}", repr(dict(MODELS)), repr(dict(ADAPTERS)))
    return {
        "base": Recipe(_text("base"), (_IMAGES / "base", Path(debian.__file__)), False, _base_context),
        "operator": Recipe(
            _text("operator"),
            (_IMAGES / "operator", paths.REPOSITORY / "operator" / "src"),
            True,
            lambda _: paths.REPOSITORY,
        ),
        "gateway": Recipe(
            _text("gateway"),
            (_IMAGES / "gateway", paths.REPOSITORY / "operator" / "src"),
            True,
            lambda _: paths.REPOSITORY,
        ),
        "ray": Recipe(_text("ray"), (_IMAGES / "ray", _RUNTIME), True, lambda _: paths.REPOSITORY),
        "ray-cpu": Recipe(
            f"{_text('ray-cpu')}\nCOPY models /models\n",
            (_IMAGES / "ray-cpu", *_OF_BOTH_RAY_IMAGES, *model),
            True,
            _ray_cpu_context,
            made,
        ),
        ENGINES: Recipe(
            (_ENGINES / "Dockerfile").read_text(), (_ENGINES, *model), True, _engines_context, made
        ),
        "tiny-model": Recipe("FROM scratch\nCOPY . /\n", model, False, _model_context, made),
    }


def references() -> Mapping[str, str]:
    """Return the full name with tag of every image, by name."""
    found: dict[str, str] = {}
    for name, recipe in sorted(recipes().items(), key=lambda item: item[1].based):
        base = found["base"] if recipe.based else ""
        found[name] = f"{REGISTRY}/{name}:{_fingerprint(recipe, base)}"
    return found


def ensure(names: Iterable[str] = WANTED, report: Report | None = None) -> Mapping[str, str]:
    """Build and load the images missing in containerd, and return the full name of each image."""
    desired = {name: reference for name, reference in references().items() if name in set(names)}
    report = report or Report()
    _build(desired, report)
    for name, reference in desired.items():
        with _image_lock(name):
            if reference not in buildah.loaded():
                with report.step(f"image {name} into containerd", expect_seconds=20):
                    buildah.load(reference)
    return desired


def build(names: Iterable[str] = WANTED, report: Report | None = None) -> None:
    """Build images that are neither built nor in containerd; no running cluster is needed."""
    desired = {name: reference for name, reference in references().items() if name in set(names)}
    _build(desired, report or Report())


def _build(desired: Mapping[str, str], report: Report) -> None:
    """Build the missing images, two at a time."""
    all_recipes, base = recipes(), references()["base"]
    missing = {name: reference for name, reference in desired.items() if not _made(reference)}
    if any(all_recipes[name].based for name in missing):
        with _image_lock("base"):
            if not buildah.stored(base):
                with report.step("image base (Debian, from its packages)", expect_seconds=40):
                    _build_one(all_recipes["base"], base, "", into_storage=True)
    # The slowest build starts first.
    order = sorted(missing, key=lambda name: not name.startswith("ray"))
    with ThreadPoolExecutor(2) as pool:
        tasks = [
            pool.submit(_build_reported, report, name, all_recipes[name], missing[name], base)
            for name in order
        ]
        for task in tasks:
            task.result()


def _build_reported(report: Report, name: str, recipe: Recipe, reference: str, base: str) -> None:
    with _image_lock(name):
        if not _made(reference):
            with report.step(f"image {name}", expect_seconds=300 if name.startswith("ray") else 20):
                # Ray's build takes longer than all others together; the others must not slow it down.
                patient = not name.startswith("ray")
                _build_one(recipe, reference, base if recipe.based else "", patient=patient)


def _made(reference: str) -> bool:
    """Return True if the image is in containerd, or built and ready to load."""
    return buildah.layout(reference).exists() or reference in buildah.loaded()


def _image_lock(name: str) -> AbstractContextManager[None]:
    """Lock one image, so that it can be loaded while other images are still being built."""
    return lock(f"image-{name}")


def _build_one(
    recipe: Recipe, reference: str, base: str, *, into_storage: bool = False, patient: bool = False
) -> None:
    folder = buildah.FOLDER / "contexts" / buildah.layout(reference).name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        context = recipe.context(folder)
        if into_storage:
            buildah.build_base(reference, recipe.dockerfile, context)
        else:
            buildah.build(reference, recipe.dockerfile, context, base, patient=patient)
    finally:
        shutil.rmtree(folder)
    if not reference.endswith(_fingerprint(recipe, base)):
        shutil.rmtree(buildah.layout(reference), ignore_errors=True)
        raise ClusterError(
            f"the sources of {reference} changed while it was built: run the same command again"
        )


def _fingerprint(recipe: Recipe, base: str) -> str:
    """Return the hash of an image's inputs, 12 hexadecimal digits; `base` names the image below it."""
    digest = hashlib.sha256()
    for part in (recipe.dockerfile, base, *recipe.parameters):
        digest.update(f"{len(part)} {part}".encode())
    for source in recipe.sources:
        files = [source] if source.is_file() else sorted(file for file in source.rglob("*") if file.is_file())
        for file in files:
            if "__pycache__" not in file.parts:
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                digest.update(f"{file.relative_to(paths.REPOSITORY)} {content}\n".encode())
    return digest.hexdigest()[:12]


def engine_args() -> str:
    """Return the output of scripts/schemas/engine_args.py in the ray-cpu image."""
    reference = ensure(["ray-cpu"])["ray-cpu"]
    return buildah.run_python(reference, paths.REPOSITORY / "scripts" / "schemas" / "engine_args.py")


def _list() -> None:
    there = buildah.loaded()
    for name, reference in references().items():
        built = buildah.layout(reference).exists()
        state = "in containerd" if reference in there else "built" if built else "not built"
        print(f"{reference:<50} {state if name != 'base' else ''}")


def main() -> int:
    """Run one command and return the exit status; an error is one line."""
    parser = argparse.ArgumentParser(prog="python -m cluster.images", description="Build and load images.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for command, text in (("build", "build into a folder"), ("load", "build and put into containerd")):
        sub = commands.add_parser(command, help=text)
        sub.add_argument("names", nargs="*", choices=[*recipes(), "all"], default="all", metavar="NAME")
    commands.add_parser("list", help="names and tags, and what is there")
    commands.add_parser("engine-args", help="the engine arguments of the vLLM in ray-cpu, as JSON")
    options = parser.parse_args()
    named = getattr(options, "names", "all")
    desired = WANTED if "all" in named else tuple(named)
    try:
        if options.command == "build":
            build(desired)
        elif options.command == "load":
            ensure(desired)
        elif options.command == "engine-args":
            sys.stdout.write(engine_args())
        else:
            _list()
    except ClusterError as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    return 0
