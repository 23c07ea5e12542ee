"""Objects of a namespace's gateway, through which clients reach all its workloads.

The objects belong to no single workload: the operator creates them with the first workload of the namespace
and deletes them with the last one.
"""

import copy
import hashlib
from collections.abc import Collection, Sequence
from typing import Any

from daybreak.api.common import names
from daybreak.api.pods.gateway_pods import GatewayResources
from daybreak.api.schema.resource import GROUP, Resource
from daybreak.gates.sleep_policy import HOLD_BOUNDS
from daybreak.platform import Platform
from daybreak.ray import ports
from daybreak.ray.network import front, to_cluster
from daybreak.ray.pods import api_token, merge_template
from daybreak.ray.quantities import canonical

Manifest = dict[str, Any]

_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
_OURS = {names.MANAGED_BY_LABEL: names.MANAGED_BY}
_OUTSIDE = (("0.0.0.0/0", "169.254.0.0/16"), ("::/0", "fe80::/10"))
"""Ranges of all addresses, each with an excluded range at which clouds give a node its credentials."""
USER_ID = 65532
AGENT_USER_ID = 65533
"""User ID of the agent. HAProxy reads client input, and can neither inspect the agent nor act for it."""
_USERS = {"runAsUser": USER_ID, "runAsGroup": USER_ID, "fsGroup": USER_ID}
"""User and groups of the pod. Both containers share the group, and so does their shared folder."""
DRAIN_SECONDS = HOLD_BOUNDS[1] + names.GATEWAY_STREAM_SECONDS
"""Maximum time in seconds for held and streaming requests to finish when a gateway stops. It is the maximum
hold of `Auto`, plus the maximum silence of an answering model."""
TOKEN_SECONDS = 3600
"""Lifetime in seconds of the token that a gateway shows to the operator. The kubelet renews it earlier."""
EXIT_SECONDS = 30
"""Further time in seconds for a stopping gateway, until its removed address is known and the pod has
ended."""


def gateway(
    namespace: str,
    workloads: Collection[Resource],
    platform: Platform,
    secrets: Collection[str] = (),
    routes: Collection[Resource] = (),
    external_ports: Collection[int] = (),
) -> list[Manifest]:
    """Return the objects of a gateway, dependencies of the Deployment's pods first.

    `workloads` are the kinds behind the gateway, and `routes` the further kinds that configure it. `secrets`
    are the names of the Secrets with API keys, in addition to the shared one. `external_ports` are the ports
    of hosts outside the cluster that routes lead to.
    """
    objects = [_service_account(namespace), _role(namespace, [*workloads, *routes]), _role_binding(namespace)]
    if platform.network_policy:
        objects.append(_network_policy(namespace, platform, external_ports))
    return [
        *objects,
        _disruption_budget(namespace),
        _router(namespace),
        _deployment(namespace, platform, sorted({names.SHARED_KEYS, *secrets})),
    ]


def _object(
    api_version: str, kind: str, namespace: str, *, name: str = names.GATEWAY, **content: Any
) -> Manifest:
    metadata = {"name": name, "namespace": namespace, "labels": names.gateway_labels()}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _service_account(namespace: str) -> Manifest:
    return _object("v1", "ServiceAccount", namespace, automountServiceAccountToken=False)


def _role(namespace: str, kinds: Collection[Resource]) -> Manifest:
    """Return the Role, which permits reads of the operator's decisions and of Ray heads, but no writes."""
    reads = ["get", "list", "watch"]
    return _object(
        "rbac.authorization.k8s.io/v1",
        "Role",
        namespace,
        rules=[
            {"apiGroups": [GROUP], "resources": [each.plural for each in kinds], "verbs": reads},
            {"apiGroups": [""], "resources": ["pods"], "verbs": reads},
        ],
    )


def _role_binding(namespace: str) -> Manifest:
    return _object(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        namespace,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": names.GATEWAY},
        subjects=[{"kind": "ServiceAccount", "name": names.GATEWAY, "namespace": namespace}],
    )


def _network_policy(namespace: str, platform: Platform, external_ports: Collection[int]) -> Manifest:
    """Return a policy that admits requests from anywhere, and only operator and metrics collectors to state.

    State and metrics share one port. The targets of a gateway are known, and it reads client input, so the
    policy permits no others. Hosts outside the cluster have names, but a policy knows only addresses: it
    permits all except those of the node itself.
    """
    (first, last), (first_route, last_route) = names.GATEWAY_PORTS, names.GATEWAY_ROUTE_PORTS
    operator = {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME_LABEL: platform.operator_namespace}},
        "podSelector": {"matchLabels": names.operator_selector()},
    }
    serving = [{"protocol": "TCP", "port": port} for port in (ports.SERVE, ports.DIRECT)]
    models = {"podSelector": {"matchExpressions": [{"key": names.OWNER_NAME_LABEL, "operator": "Exists"}]}}
    # Each ModelServer has its own port, which its own policy opens to the gateway.
    servers = {"podSelector": {"matchLabels": {names.COMPONENT_LABEL: names.SERVER_COMPONENT, **_OURS}}}
    egress = [{"to": [models], "ports": serving}, {"to": [servers]}, *to_cluster(platform.api_server_ports)]
    if external_ports:
        anywhere = [{"ipBlock": {"cidr": cidr, "except": [local]}} for cidr, local in _OUTSIDE]
        outside = [{"protocol": "TCP", "port": port} for port in sorted(set(external_ports))]
        egress.append({"to": anywhere, "ports": outside})
    return _object(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        namespace,
        spec={
            "podSelector": {"matchLabels": names.gateway_selector()},
            "policyTypes": ["Ingress", "Egress"] if platform.gateway_egress else ["Ingress"],
            "ingress": [
                {
                    "ports": [
                        {"protocol": "TCP", "port": first, "endPort": last},
                        {"protocol": "TCP", "port": first_route, "endPort": last_route},
                        {"protocol": "TCP", "port": names.GATEWAY_ROUTER_PORT},
                        {"protocol": "TCP", "port": names.GATEWAY_HEALTH_PORT},
                    ]
                },
                {
                    "from": [operator, *platform.gateway_pods.metrics_allow_from],
                    "ports": [{"protocol": "TCP", "port": names.GATEWAY_HTTP_PORT}],
                },
            ],
            **({"egress": egress} if platform.gateway_egress else {}),
        },
    )


def _router(namespace: str) -> Manifest:
    """Return the Service for all models of the namespace; a request's body names its model."""
    spec = front(names.gateway_selector(), names.GATEWAY_ROUTER_PORT)
    return _object("v1", "Service", namespace, name=names.ROUTER, spec=spec)


def _disruption_budget(namespace: str) -> Manifest:
    selector = {"matchLabels": names.gateway_selector()}
    return _object(
        "policy/v1", "PodDisruptionBudget", namespace, spec={"maxUnavailable": 1, "selector": selector}
    )


def _deployment(namespace: str, platform: Platform, secrets: Sequence[str]) -> Manifest:
    return _object(
        "apps/v1",
        "Deployment",
        namespace,
        spec={
            "replicas": platform.gateway_replicas,
            "selector": {"matchLabels": names.gateway_selector()},
            # Surge by one pod while an old pod finishes held requests, so that the number of pods never falls
            # below `replicas`.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": _template(platform, secrets),
        },
    )


def _template(platform: Platform, secrets: Sequence[str]) -> dict[str, Any]:
    """Return the pod template, merged with the installation's settings."""
    own = {"metadata": {"labels": names.gateway_labels()}, "spec": _pod(platform, secrets)}
    name = names.GATEWAY_COMPONENT
    whole = merge_template.merged(own, platform.gateway_pods.pod_template, container=name, alias=name)
    haproxy = next(each for each in whole["spec"]["containers"] if each["name"] == name)
    for agent in whole["spec"]["containers"]:
        if agent["name"] == names.GATEWAY_AGENT:
            # A template's variables, such as proxies and the log level, apply to both containers.
            given = {key: haproxy[key] for key in ("env", "envFrom") if key in haproxy}
            agent.update(copy.deepcopy(given))
    for container in [*whole["spec"]["containers"], *whole["spec"].get("initContainers", ())]:
        for kind in ("requests", "limits"):
            if amounts := container.get("resources", {}).get(kind):
                container["resources"][kind] = {
                    resource: canonical(str(amount)) for resource, amount in amounts.items()
                }
    return whole


def _pod(platform: Platform, secrets: Sequence[str]) -> dict[str, Any]:
    chosen = platform.gateway_pods.pod()
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": names.gateway_selector()},
    }
    run = {"name": names.GATEWAY_RUN_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}
    return {
        "serviceAccountName": names.GATEWAY,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": DRAIN_SECONDS + EXIT_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            **({} if platform.assigned_users else _USERS),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [spread],
        "imagePullSecrets": [{"name": name} for name in platform.gateway_pull_secrets],
        "containers": [_haproxy(platform), _agent(platform, secrets)],
        "volumes": [
            run,
            api_token.volume(),
            *([_proof_volume()] if platform.gateway_tokens else []),
            *(_keys_volume(secret) for secret in secrets),
        ],
        **chosen,
    }


def _keys_volume(secret: str) -> dict[str, Any]:
    """Return a volume for a Secret with keys.

    A missing Secret keeps its own service closed, but does not block others.
    """
    return {"name": _volume_name(secret), "secret": {"secretName": secret, "optional": True}}


def _proof_volume() -> dict[str, Any]:
    """Return a volume with the token that a gateway shows to the operator.

    The token is valid only for the operator as audience, and for this pod.
    """
    token = {
        "path": "token",
        "audience": names.OPERATOR_AUDIENCE,
        "expirationSeconds": TOKEN_SECONDS,
    }
    sources = [{"serviceAccountToken": token}]
    return {"name": names.GATEWAY_PROOF_VOLUME, "projected": {"sources": sources}}


def _volume_name(secret: str) -> str:
    return f"{names.GATEWAY_KEYS_VOLUME_PREFIX}{hashlib.sha256(secret.encode()).hexdigest()[:12]}"


def _haproxy(platform: Platform) -> dict[str, Any]:
    """Return HAProxy's container. Its only secrets are digests of keys, which the agent sends."""
    return {
        "name": names.GATEWAY_COMPONENT,
        "args": ["haproxy"],
        **_common(platform),
        "ports": [{"name": "health", "containerPort": names.GATEWAY_HEALTH_PORT, "protocol": "TCP"}],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "health"},
            "periodSeconds": 2,
            "timeoutSeconds": 2,
        },
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "health"},
            "initialDelaySeconds": 10,
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "resources": _amounts(platform.gateway_pods.resources),
        "securityContext": _restricted(),
        "volumeMounts": [_run_mount()],
    }


def _agent(platform: Platform, secrets: Sequence[str]) -> dict[str, Any]:
    """Return the agent's container.

    It has no probes, because the container itself restarts the agent, and HAProxy continues without it.
    """
    proof = {
        "name": names.GATEWAY_PROOF_VOLUME,
        "mountPath": names.GATEWAY_PROOF_FOLDER,
        "readOnly": True,
    }
    user = {} if platform.assigned_users else {"runAsUser": AGENT_USER_ID}
    return {
        "name": names.GATEWAY_AGENT,
        "args": ["agent"],
        **_common(platform),
        "ports": [{"name": "http", "containerPort": names.GATEWAY_HTTP_PORT, "protocol": "TCP"}],
        "resources": _amounts(platform.gateway_pods.agent_resources),
        "securityContext": {**user, **_restricted()},
        "volumeMounts": [
            _run_mount(),
            api_token.mount(),
            *([proof] if platform.gateway_tokens else []),
            *(
                {
                    "name": _volume_name(secret),
                    "mountPath": f"{names.GATEWAY_KEYS_FOLDER}/{secret}",
                    "readOnly": True,
                }
                for secret in secrets
            ),
        ],
    }


def _common(platform: Platform) -> dict[str, Any]:
    """Return the image and the variables of both containers."""
    (first, last), (first_route, last_route) = names.GATEWAY_PORTS, names.GATEWAY_ROUTE_PORTS
    own_namespace = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "image": platform.gateway_image,
        "imagePullPolicy": platform.gateway_pods.pull_policy,
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": own_namespace},
            {"name": "GATEWAY_FOLDER", "value": names.GATEWAY_FOLDER},
            {"name": "GATEWAY_KEYS_FOLDER", "value": names.GATEWAY_KEYS_FOLDER},
            {"name": "GATEWAY_HTTP_PORT", "value": str(names.GATEWAY_HTTP_PORT)},
            {"name": "GATEWAY_HEALTH_PORT", "value": str(names.GATEWAY_HEALTH_PORT)},
            {"name": "GATEWAY_FIRST_PORT", "value": str(first)},
            {"name": "GATEWAY_SLOTS", "value": str(last - first + 1)},
            {"name": "GATEWAY_ROUTE_FIRST_PORT", "value": str(first_route)},
            {"name": "GATEWAY_ROUTE_SLOTS", "value": str(last_route - first_route + 1)},
            {"name": "GATEWAY_DRAIN_SECONDS", "value": str(DRAIN_SECONDS)},
        ],
    }


def _run_mount() -> dict[str, Any]:
    return {"name": names.GATEWAY_RUN_VOLUME, "mountPath": names.GATEWAY_FOLDER}


def _restricted() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _amounts(resources: GatewayResources) -> dict[str, Any]:
    return resources.model_dump(mode="json", exclude_defaults=True)
