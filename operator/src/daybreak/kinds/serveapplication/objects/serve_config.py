"""Ray Serve's configuration of an application: `serveConfigV2` of the RayService, as YAML text.

As for an LLMService, Serve applies a change of `deployments` in place. After any other change it rebuilds the
application on the same pods.
"""

from dataclasses import dataclass
from typing import Any

from daybreak.api.common import names
from daybreak.api.ray.model import EngineArgs
from daybreak.api.schema.scalars import parse_quantity
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.api.serveapplication.deployment import Autoscaling, Bundle, Deployment
from daybreak.api.serveapplication.groups import by_deployment
from daybreak.kinds.serveapplication.objects.pods import with_llms_away
from daybreak.ray.quantities import as_seconds, plain
from daybreak.ray.serve.serve_config import HTTP_OPTIONS, llm_config, model_deployment, written

SHARE = 0.001
"""Share of a worker group's custom resource, of which each pod has one. It binds a replica to the group's
pods."""
WITH_LLMS = "daybreak_runtime.models.with_llms:build"
"""Builder of an application with LLMs: it passes the handles of the LLMs to the user's function."""
_FETCHED = ("s3://", "gs://", "https://")


def serve_config(application: ServeApplication, *, away: bool = False) -> str:
    """Return the configuration as YAML; equal for equal specs, byte by byte.

    With `away`, no deployment has a replica, while the application stays defined: only numbers differ, so
    that Serve rebuilds nothing when the application wakes.
    """
    groups = by_deployment(application.groups)
    workload, applications = with_llms_away(application, away=away), []
    for each in _applications(application):
        own = [one for one in application.spec.deployments if one.route == each.route]
        settings = [_deployment(one, groups[one.name].name, away=away) for one in own]
        if each.route is None:
            settings += [model_deployment(workload, model) for model in application.spec.llms]
        applications.append({**each.message, "deployments": settings})
    # Gateways send requests to the head: pods without a replica need no proxy, which takes seconds to start.
    document = {"proxy_location": "HeadOnly", "http_options": HTTP_OPTIONS, "applications": applications}
    return written(document)


@dataclass(frozen=True)
class _Application:
    """One of Serve's applications."""

    route: str | None
    """Route as named by deployments. None for the main application."""
    message: dict[str, Any]
    """Configuration for Serve, without the deployments."""


def application_names(application: ServeApplication) -> tuple[str, ...]:
    """Return the names of the Serve applications of a ServeApplication."""
    return tuple(str(each.message["name"]) for each in _applications(application))


def _applications(application: ServeApplication) -> list[_Application]:
    """Return the Serve applications: the main one, and one for each route with an import path."""
    spec = application.spec
    own = _application_config(application, names.SERVE_APPLICATION, "/", spec.import_path, spec.args)
    if spec.llms:
        configs = [llm_config(application.workload, model) for model in spec.llms]
        reported = {"importPath": spec.import_path, "args": own.get("args", {}), "llms": configs}
        own |= {"import_path": WITH_LLMS, "args": reported}
    found = [_Application(None, own)]
    for each in spec.routes:
        if each.import_path is not None:
            name = names.route_application(each.prefix)
            message = _application_config(application, name, each.prefix, each.import_path, each.args)
            found.append(_Application(each.prefix, message))
    return found


def _application_config(
    application: ServeApplication, name: str, prefix: str, import_path: str, args: EngineArgs | None
) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "route_prefix": prefix, "import_path": import_path}
    if args:
        found["args"] = {name: args[name] for name in sorted(args)}
    if directory := _fetched(application):
        found["runtime_env"] = {"working_dir": directory}
    return found


def configuration(application: ServeApplication) -> Any:
    """Return the configuration whose change restarts replicas: of the applications and of each replica."""
    spec, groups = application.spec, by_deployment(application.groups)
    given = (
        "name",
        "ray_actor_options",
        "placement_group_bundles",
        "placement_group_strategy",
        "max_replicas_per_node",
    )
    each = [(one.route, _deployment(one, groups[one.name].name)) for one in spec.deployments]
    restarting = [[route, {name: one[name] for name in given if name in one}] for route, one in each]
    return [[one.message for one in _applications(application)], restarting]


def _fetched(application: ServeApplication) -> str:
    """Return the zip file with the code that Ray fetches; empty if there is none."""
    directory = application.spec.code.working_dir if application.spec.code is not None else None
    return directory if directory is not None and directory.startswith(_FETCHED) else ""


def _deployment(deployment: Deployment, group: str, *, away: bool = False) -> dict[str, Any]:
    own = {names.group_resource(group): SHARE}
    actor: dict[str, Any] = {"num_cpus": _cores(deployment.cpu), "resources": own}
    if deployment.accelerators:
        actor["num_gpus"] = plain(deployment.accelerators)
    if deployment.memory is not None:
        actor["memory"] = int(parse_quantity(deployment.memory))
    found: dict[str, Any] = {
        "name": deployment.name,
        "max_ongoing_requests": deployment.max_ongoing_requests,
        "max_queued_requests": deployment.max_queued_requests,
        "health_check_period_s": as_seconds(deployment.health_check_period),
        "health_check_timeout_s": as_seconds(deployment.health_check_timeout),
        "graceful_shutdown_wait_loop_s": as_seconds(deployment.graceful_shutdown_wait),
        "graceful_shutdown_timeout_s": as_seconds(deployment.graceful_shutdown_timeout),
        "ray_actor_options": actor,
    }
    if away:
        # Serve accepts no upper bound below 1; the initial number is an order to stop now.
        found["autoscaling_config"] = {"min_replicas": 0, "initial_replicas": 0, "max_replicas": 1}
    elif deployment.autoscaling is not None:
        found["autoscaling_config"] = _autoscaling(deployment.autoscaling)
    else:
        # Not `num_replicas`: Serve rebuilds an application if the set of deployments that scale changes.
        found["autoscaling_config"] = {"min_replicas": deployment.fewest, "max_replicas": deployment.fewest}
    if deployment.placement_group is not None:
        bundles = [_bundle(bundle, own) for bundle in deployment.placement_group.bundles]
        found["placement_group_bundles"] = bundles
        found["placement_group_strategy"] = deployment.placement_group.strategy.value
        if deployment.memory is not None:
            bundles[0]["memory"] = actor["memory"]
    if deployment.max_replicas_per_node is not None:
        found["max_replicas_per_node"] = deployment.max_replicas_per_node
    if deployment.user_config is not None:
        found["user_config"] = deployment.user_config
    if (logging := deployment.logging) is not None:
        found["logging_config"] = {
            "log_level": logging.level.value,
            "encoding": logging.encoding.value,
            "enable_access_log": logging.access_log,
        }
    return found


def _bundle(bundle: Bundle, own: dict[str, float]) -> dict[str, Any]:
    found: dict[str, Any] = {"CPU": _cores(bundle.cpu), **own}
    if bundle.accelerators:
        found["GPU"] = plain(bundle.accelerators)
    return found


def _autoscaling(scaling: Autoscaling) -> dict[str, Any]:
    found: dict[str, Any] = {"min_replicas": scaling.min_replicas}
    if scaling.initial_replicas is not None:
        found["initial_replicas"] = scaling.initial_replicas
    found |= {
        "max_replicas": scaling.max_replicas,
        "target_ongoing_requests": plain(scaling.target_ongoing_requests),
        "upscale_delay_s": as_seconds(scaling.upscale_delay),
        "downscale_delay_s": as_seconds(scaling.downscale_delay),
        "look_back_period_s": as_seconds(scaling.look_back_period),
    }
    if scaling.upscaling_factor is not None:
        found["upscaling_factor"] = plain(scaling.upscaling_factor)
    if scaling.downscaling_factor is not None:
        found["downscaling_factor"] = plain(scaling.downscaling_factor)
    return found


def _cores(quantity: str) -> int | float:
    return plain(float(parse_quantity(quantity)))
