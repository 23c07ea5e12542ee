"""List the fields of a pod template in KubeRay's CRD, for the operator's check of `podTemplate`.

    python scripts/schemas/pod_schema.py ray.io_rayservices.yaml VERSION >pod_schema.json

The result is operator/src/daybreak/api/pods/pod_schema.json.
The file is in KubeRay's module (`config/crd/bases`); VERSION is KubeRay's. The API server silently drops
fields that this CRD does not have from a RayService. The check therefore uses this list and not that of the
newest Kubernetes. A test compares the committed list with the installed CRD.

`types` has each object type once; a field's type is one of

- `string`, `integer`, `boolean`, `quantity` (`500m`, `16Gi`), `port` (a number or a name), `any`
- `{"map": TYPE}`: an object with any keys
- `{"list": TYPE, "keys": [...]}`: a list; these fields, if any, identify its items
- `{"ref": NAME}`: an object of `types`
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_SCALARS = {"string": "string", "integer": "integer", "number": "integer", "boolean": "boolean"}
_POD = ("spec", "rayClusterConfig", "headGroupSpec", "template", "spec")


def pod_schema(crd: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return the list, from the RayService's CRD."""
    [served] = [each for each in crd["spec"]["versions"] if each["storage"]]
    node = served["schema"]["openAPIV3Schema"]
    for step in _POD:
        node = node["properties"][step]
    types: dict[str, Any] = {}
    root = _type(node, "pod", types)
    return {"kuberay": version, "root": root["ref"], "types": types}


def _type(node: Mapping[str, Any], name: str, types: dict[str, Any]) -> Any:
    if node.get("x-kubernetes-int-or-string"):
        return "quantity" if "pattern" in node else "port"
    match node.get("type"):
        case "array":
            found: dict[str, Any] = {"list": _type(node["items"], name, types)}
            if "x-kubernetes-list-map-keys" in node:
                found["keys"] = node["x-kubernetes-list-map-keys"]
            return found
        case "object" if "properties" in node:
            return {"ref": _object(node, name, types)}
        case "object" if "additionalProperties" in node:
            return {"map": _type(node["additionalProperties"], name, types)}
        case "object":
            return "any"
        case str(scalar):
            return _SCALARS[scalar]
    return "any"


def _object(node: Mapping[str, Any], name: str, types: dict[str, Any]) -> str:
    """Return the name of an object's type: its first field's name, numbered if another type has that name."""
    content: dict[str, Any] = {
        "fields": {field: _type(part, field, types) for field, part in sorted(node["properties"].items())}
    }
    defaulted = {field for field, part in node["properties"].items() if "default" in part}
    if needed := sorted(set(node.get("required", ())) - defaulted):
        content["required"] = needed
    if defaulted:
        content["defaults"] = {field: node["properties"][field]["default"] for field in sorted(defaulted)}
    for known, other in types.items():
        if other == content:
            return known
    free = name
    number = 2
    while free in types:
        free = f"{name}{number}"
        number += 1
    types[free] = content
    return free


def main() -> int:
    """Print the list."""
    path, version = sys.argv[1:]
    crd = yaml.load(Path(path).read_text(), Loader=yaml.CSafeLoader)
    json.dump(pod_schema(crd, version), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
