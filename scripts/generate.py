"""Make every file that is made from others (`make generate`), or say which are stale (`--check`).

Run with PYTHONPATH=operator/src:e2e:. from the repository's root, as the Makefile does.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from daybreak.gateway.fields import fields
from scripts import sboms
from scripts.docs import values_table
from scripts.docs.application_api import application_api_md
from scripts.docs.batch_api import batch_api_md
from scripts.docs.benchmark_api import benchmark_api_md
from scripts.docs.benchmarks import benchmarks_md
from scripts.docs.decisions import decisions_md
from scripts.docs.figures import PAGES, page_md
from scripts.docs.gateway_variables import variables_md
from scripts.docs.llmservice_api import api_md
from scripts.docs.metrics import metrics_md
from scripts.docs.responses import responses_md
from scripts.docs.route_api import route_api_md
from scripts.docs.server_api import server_api_md
from scripts.docs.versions import versions_md
from scripts.docs.wrap import wrap_md
from scripts.kinds import KINDS, Kind
from scripts.manifests import argocd, kustomize_base
from scripts.prose import check as prose
from scripts.schemas.json_schema import json_schema

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 110
"""Line length of generated YAML."""


class _Plain(yaml.SafeDumper):
    """YAML dumper without anchors, which are hard to read for people and for Helm."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def crd_yaml(kind: Kind) -> str:
    """Return the CustomResourceDefinition of a kind."""
    found = kind.crd.manifest()
    text: str = yaml.dump(found, Dumper=_Plain, sort_keys=False, width=WIDTH, allow_unicode=True)
    return "# Made by `make generate` from operator/src/daybreak/api; do not edit.\n" + text


def schema_json(kind: Kind) -> str:
    """Return the JSON schema of a kind for editors."""
    return json.dumps(json_schema(kind), indent=2, ensure_ascii=False) + "\n"


FILES: dict[str, Callable[[], str]] = {
    **{
        f"charts/daybreak/files/crds/daybreak.dev_{kind.crd.resource.plural}.yaml": partial(crd_yaml, kind)
        for kind in KINDS
    },
    **{f"docs/{kind.stem}.schema.json": partial(schema_json, kind) for kind in KINDS},
    "runtime/src/daybreak_runtime/http/request_fields.json": fields.shared,
    "docs/api.md": api_md,
    "docs/batch-api.md": batch_api_md,
    "docs/benchmark-api.md": benchmark_api_md,
    "docs/model-server-api.md": server_api_md,
    "docs/application-api.md": application_api_md,
    "docs/route-api.md": route_api_md,
    "docs/versions.md": versions_md,
    "docs/metrics.md": metrics_md,
    "docs/responses.md": responses_md,
    "operator/src/daybreak/gateway/variables.md": variables_md,
    "docs/benchmarks.md": benchmarks_md,
    "docs/decisions/README.md": decisions_md,
    **{page: partial(page_md, page) for page in PAGES},
    # After the CRD, which is an input of helm.
    "manifests/base/crds.yaml": kustomize_base.crds_yaml,
    "manifests/base/operator.yaml": kustomize_base.operator_yaml,
    "manifests/argocd/argocd-cm.yaml": argocd.argocd_cm_yaml,
    **sboms.FILES,
    "charts/daybreak/README.md": values_table.readme_md,
    # Last, because it counts findings in the other files.
    "scripts/prose/baseline.json": prose.baseline_json,
}
"""Function that returns the text of each generated file, by path from the repository's root."""
RENDERED_BY_HELM = ("manifests/base/crds.yaml", "manifests/base/operator.yaml")
"""Files omitted from --check if helm is not built yet; a test in tests/chart compares them too."""


def content(name: str) -> str:
    """Return the text of a generated file, with the line length of the pages."""
    text = FILES[name]()
    return wrap_md(text) if name.endswith(".md") else text


def main() -> int:
    """Write the files that differ; with --check, write nothing and fail if any differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    check: bool = parser.parse_args().check
    helm = kustomize_base.BUILT_HELM.exists() or shutil.which("helm") is not None
    stale = []
    for name in FILES:
        if check and not helm and name in RENDERED_BY_HELM:
            print(f"not checked without helm: {name}")
            continue
        path, text = ROOT / name, content(name)
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for name in stale:
        print(f"stale: {name}; run `make generate`" if check else f"made: {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
