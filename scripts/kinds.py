"""Kinds of Daybreak, for everything that is generated per kind."""

from dataclasses import dataclass

from daybreak.api.llmbatch import crd as llmbatch
from daybreak.api.llmbatch.definition import NAME_LIMIT as LLM_BATCH_NAME
from daybreak.api.llmbenchmark import crd as llmbenchmark
from daybreak.api.llmbenchmark.definition import NAME_LIMIT as LLM_BENCHMARK_NAME
from daybreak.api.llmroute import crd as llmroute
from daybreak.api.llmroute.definition import NAME_LIMIT as LLM_ROUTE_NAME
from daybreak.api.llmservice import crd as llmservice
from daybreak.api.llmservice.definition import NAME_LIMIT as LLM_SERVICE_NAME
from daybreak.api.modelserver import crd as modelserver
from daybreak.api.modelserver.definition import NAME_LIMIT as MODEL_SERVER_NAME
from daybreak.api.schema.custom_resource import Definition
from daybreak.api.serveapplication import crd as serveapplication
from daybreak.api.serveapplication.definition import NAME_LIMIT as SERVE_APPLICATION_NAME


@dataclass(frozen=True)
class Kind:
    """Kind of Daybreak.

    Attributes:
        crd: CustomResourceDefinition of the kind.
        name_limit: Maximum length of an object's name, in characters.
        has_service: True if a Service has the name of an object.
    """

    crd: Definition
    name_limit: int
    has_service: bool = False

    @property
    def stem(self) -> str:
        """Return the base name of the kind's files."""
        return self.crd.resource.kind.lower()


LLM_SERVICE = Kind(llmservice.CRD, LLM_SERVICE_NAME, has_service=True)
LLM_BATCH = Kind(llmbatch.CRD, LLM_BATCH_NAME)
LLM_BENCHMARK = Kind(llmbenchmark.CRD, LLM_BENCHMARK_NAME)
MODEL_SERVER = Kind(modelserver.CRD, MODEL_SERVER_NAME, has_service=True)
SERVE_APPLICATION = Kind(serveapplication.CRD, SERVE_APPLICATION_NAME, has_service=True)
LLM_ROUTE = Kind(llmroute.CRD, LLM_ROUTE_NAME)
KINDS = (LLM_SERVICE, LLM_BATCH, LLM_BENCHMARK, MODEL_SERVER, SERVE_APPLICATION, LLM_ROUTE)
