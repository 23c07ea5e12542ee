"""Function for `importPath` that builds an application of Serve from the manifest's `args`."""

from collections.abc import Callable, Mapping
from typing import Any

from ray import serve
from ray.serve import Application

from daybreak_runtime.models.args import Args
from daybreak_runtime.models.model import Model
from daybreak_runtime.models.multiplexed import Front, ManyModels
from daybreak_runtime.models.server import DesiredVersions, Server

ONGOING = 256
"""Maximum number of concurrent requests of a replica, if its options do not set it: Serve's own 5 would fill
no batch."""


def application(
    *kinds: type[Model], uses: Mapping[str, type[Model]] | None = None, **options: Any
) -> Callable[[Args], Application]:
    """Return a builder for one or several classes of models, which share each replica.

    The deployment has the name of the class, or `Models` if there are several.

    Args:
        kinds: Served models, each under its name in lower case, or as `args.name` if there is only one.
        uses: Models that they call, each a separate deployment, by their names in `self.uses`.
        options: Options of the models' deployment, by Serve's names: `num_replicas`, `ray_actor_options` ...

    Returns:
        Function for `importPath`; Serve calls it with checked `args`.

    Raises:
        TypeError: There is no class, or one without `predict`.
    """
    if not kinds:
        raise TypeError("application() needs a class of models")
    for kind in (*kinds, *(uses or {}).values()):
        if kind.predict is None:
            raise TypeError(f"{kind.__name__} has no predict")
    name = kinds[0].__name__ if len(kinds) == 1 else "Models"

    def build(args: Args) -> Application:
        llms, args = args.models, args.model_copy(update={"models": {}})
        if len(kinds) > 1 and (args.name or args.versions or args.source or args.multiplex):
            raise ValueError(
                "name, source, versions and multiplex are of one model, and the application has several"
            )
        handles = steps(uses or {}, args.uses)
        ongoing = max(ONGOING, 4 * args.batch.maxSize if args.batch else 0)
        settings = {"name": name, "max_ongoing_requests": ongoing, **options}
        if args.multiplex is not None:
            if handles or llms:
                raise ValueError("models of a multiplexed application call no others")
            many = serve.deployment(ManyModels, **settings).bind(kinds[0], args)
            return serve.deployment(Front, max_ongoing_requests=4 * ongoing).bind(many, args)
        named = {args.name: kinds[0]} if args.name else {kind.__name__.lower(): kind for kind in kinds}
        deployment = serve.deployment(Server, **settings)
        if not args.modelControl:
            return deployment.bind(named, args, None, handles, llms)
        desired = serve.deployment(
            DesiredVersions, ray_actor_options={"num_cpus": 0}, max_ongoing_requests=10_000
        )
        return deployment.bind(named, args, desired.bind(), handles, llms)

    return build


def steps(kinds: Mapping[str, type[Model]], args: Mapping[str, Args]) -> dict[str, Application]:
    """Return deployments that others call by a handle.

    Raises:
        ValueError: Arguments are for a deployment that does not exist.
    """
    unknown = sorted(set(args) - set(kinds))
    if unknown:
        raise ValueError(f"args.uses has {', '.join(unknown)}, and the application uses {sorted(kinds)}")
    return {
        name: serve.deployment(Server, name=kind.__name__, max_ongoing_requests=ONGOING).bind(
            {name: kind}, args.get(name, Args())
        )
        for name, kind in kinds.items()
    }
