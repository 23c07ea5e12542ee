"""CustomResourceDefinition of LLMBenchmark, generated from the models."""

from daybreak.api.llmbenchmark import definition
from daybreak.api.llmbenchmark.spec import LLMBenchmarkSpec
from daybreak.api.llmbenchmark.status import LLMBenchmarkStatus
from daybreak.api.schema import custom_resource

CRD = custom_resource.Definition(
    definition.LLM_BENCHMARKS,
    "Load test of an engine, and search for the engine arguments with the highest throughput.",
    definition.NAME_RULES,
    LLMBenchmarkSpec,
    LLMBenchmarkStatus,
    columns=[
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Progress", "type": "string", "jsonPath": ".status.progress"},
        {"name": "Best", "type": "string", "jsonPath": ".status.recommendation"},
        {"name": "Req/s", "type": "number", "jsonPath": ".status.best.requestsPerSecond"},
        {"name": "Gain", "type": "number", "jsonPath": ".status.gain.ratio"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Next", "type": "string", "jsonPath": ".status.nextScheduleTime", "priority": 1},
        {"name": "Starts", "type": "integer", "jsonPath": ".status.engineStarts", "priority": 1},
        {
            "name": "Accelerator-seconds",
            "type": "number",
            "jsonPath": ".status.acceleratorSeconds",
            "priority": 1,
        },
        {
            "name": "Message",
            "type": "string",
            "jsonPath": '.status.conditions[?(@.type=="Reconciling")].message',
            "priority": 1,
        },
    ],
    short_names=(definition.SHORT_NAME,),
)
