"""Rules across fields of an LLMBatch that CEL cannot express."""

from collections.abc import Iterator

from daybreak import versions
from daybreak.api.common import engine_args
from daybreak.api.common.source import ModelSource, Scheme
from daybreak.api.jobs.order import too_long
from daybreak.api.llmbatch.definition import LLMBatch
from daybreak.api.llmbatch.spec import InputFormat, Task

_IN_PODS = (Scheme.FILE, Scheme.CLAIM, Scheme.IMAGE)
ACCOUNT_NAME_LIMIT = 50
"""Maximum length of a ServiceAccount name that KubeRay 1.6 does not truncate."""


def problems(batch: LLMBatch) -> tuple[str, ...]:
    """Return the problems that make the spec unusable, each as one sentence; empty if there are none."""
    return (*_engine(batch), *_adapter(batch), *_places(batch), *_prompts(batch), *_rest(batch))


def _engine(batch: LLMBatch) -> Iterator[str]:
    model = batch.spec.model
    if model is None:
        return
    other = batch.spec.runtime.stated_ray_version not in ("", versions.RAY)
    for name, wrong in engine_args.problems(model.engine.args, other_vllm=other):
        yield f"spec.model.engine.args.{name}: {wrong}"


def _adapter(batch: LLMBatch) -> Iterator[str]:
    desired, model = batch.spec.adapter, batch.spec.model
    if desired is None:
        return
    if model is None:
        yield "spec.adapter belongs to spec.model; with serviceRef name it in spec.serviceRef.model"
        return
    adapters = {each.name: each for each in model.lora.adapters} if model.lora is not None else {}
    if desired not in adapters:
        yield f"spec.adapter: spec.model.lora.adapters has no {desired}"
    elif ModelSource.parse(adapters[desired].source).scheme not in _IN_PODS:
        yield "spec.adapter: a batch takes adapters from pvc://, image:// and file:// only"


def _places(batch: LLMBatch) -> Iterator[str]:
    source, target = batch.spec.input.uri.rstrip("/"), batch.spec.output.uri.rstrip("/")
    if source == target or source.startswith(f"{target}/") or target.startswith(f"{source}/"):
        yield "spec.output.uri: the output must not lie in the input, nor the input in it; use another folder"


def _prompts(batch: LLMBatch) -> Iterator[str]:
    spec = batch.spec
    if spec.input.format is InputFormat.OPENAI:
        if spec.images:
            yield "spec.images: with input.format OpenAI, images are in the messages, as image_url"
        if spec.sampling_params_column is not None:
            yield "spec.samplingParamsColumn: with input.format OpenAI, parameters are in each body"
    chat = spec.messages is not None or spec.messages_column is not None
    if chat and spec.model is not None and not spec.stages.chat_template:
        yield "spec.stages.chatTemplate: without it messages make no prompt; give spec.prompt instead"


def _rest(batch: LLMBatch) -> Iterator[str]:
    spec = batch.spec
    yield from too_long(spec)
    if spec.task is not Task.GENERATE:
        if spec.guided_json is not None:
            yield f"spec.guidedJson: task {spec.task.value} writes nothing that could follow a schema"
        if spec.service_ref is not None and spec.task is not Task.EMBED:
            yield f"spec.task: {spec.task.value} needs a model of the batch's own"
    account = spec.runtime.service_account_name
    if account is not None and len(account) > ACCOUNT_NAME_LIMIT:
        yield (
            f"spec.runtime.serviceAccountName: {account} has {len(account)} characters, of which KubeRay "
            f"keeps {ACCOUNT_NAME_LIMIT}; use a shorter name"
        )
    if batch.queue and spec.model is not None and spec.model.replicas.min == 0:
        yield "spec.model.replicas.min: Kueue admits a fixed number of pods; use at least 1"
