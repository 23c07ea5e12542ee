"""Ray Data LLM: the head reads blocks, workers prepare and answer them, and the answers return to the head.

Data between the stages is text (JSON), so that rows of different structure never meet in one Arrow column.
"""

import json
import logging
import math
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from daybreak_runtime.batch.order import Engines, Request
from daybreak_runtime.batch.output import Answer
from daybreak_runtime.batch.rows.prepare import as_text, prepared
from daybreak_runtime.batch.rows.row_error import RowError
from daybreak_runtime.batch.rows.staging import Block

HEAD_RESOURCE = "daybreak-head"
"""Ray resource that only the head has (the operator's `names.HEAD_RESOURCE`)."""
ERROR_LIMIT = 2000
"""Maximum length of a row's error, in characters."""
ENGINE_TASKS = {"score": "classify"}
"""Tasks of vLLM 0.29 whose names differ. It no longer has `score`, nor Ray 2.60's request for it (`convert:
reward`); a score is a classification with one class."""
_SLIVER = 0.0001
"""Amount of a resource that selects a node and is not used up."""
_ENGINE_STAGE = "vLLMEngineStage"
"""Name of the processor's stage with the engine."""
_READERS = 2
"""Number of processes on the head that read blocks."""
_TEXT_COLUMNS = ("row", "columns", "request", "answer", "__inference_error__")
log = logging.getLogger("daybreak.batch")


def concurrent_batches(engines: Engines) -> int:
    """Return the number of concurrent batches of an engine, so that every slot has a row.

    Ray Data LLM's default keeps 256 rows in an engine, whatever its size.
    """
    # A batch stays until its longest row is answered; the slots of its other rows would be empty until then.
    # In vLLM itself at most a tenth above its slots waits, because Ray's stage limits the rows.
    rows = engines.max_num_seqs * (1.1 + math.log2(engines.batch_size))
    return max(2, math.ceil(rows / engines.batch_size))


def answers(engines: Engines, request: Request, blocks: Sequence[Block]) -> Iterator[list[Answer]]:
    """Yield the answers of the blocks' rows, in any order; a row may occur twice."""
    if not blocks:
        return
    import ray
    from ray.data.llm import build_processor, vLLMEngineProcessorConfig

    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = False
    context.enable_progress_bars = False
    where = {engines.resource: _SLIVER}
    config = vLLMEngineProcessorConfig(
        model_source=engines.source,
        engine_kwargs=dict(engines.engine_args),
        task_type=ENGINE_TASKS.get(request.task, request.task),
        batch_size=engines.batch_size,
        concurrency=engines.replicas,
        max_concurrent_batches=concurrent_batches(engines),
        placement_group_config={"bundle_per_worker": dict(engines.bundle), "strategy": engines.strategy},
        should_continue_on_error=True,
        chat_template_stage=False,
        tokenize_stage=False,
        detokenize_stage=False,
    )
    processor = build_processor(config)
    # Rows already have the format of the stages, and keep it: two steps less for each block.
    processor.preprocess = processor.postprocess = None
    from daybreak_runtime.batch.stage_classes import JsonEngine, Prepare

    stage = processor.stages[_ENGINE_STAGE]
    kwargs = {**stage.fn_constructor_kwargs, "adapters": dict(engines.adapters), "task": request.task}
    # A copy, because setting a field makes the stage recompute its actors' resources, which would include a
    # GPU.
    processor.stages[_ENGINE_STAGE] = stage.model_copy(
        update={"fn": JsonEngine, "fn_constructor_kwargs": kwargs}
    )
    dataset = ray.data.read_datasource(
        _source(blocks),
        override_num_blocks=len(blocks),
        num_cpus=0,
        concurrency=_READERS,
        resources={HEAD_RESOURCE: _SLIVER},
    )
    dataset = dataset.map_batches(
        Prepare,
        fn_constructor_kwargs={"engines": engines, "request": request},
        batch_size=None,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=engines.preparers),
        num_cpus=_SLIVER,
        resources=where,
    )
    for batch in processor(dataset).iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=2):
        yield [_answer(row) for row in batch.column(processor.DATA_COLUMN).to_pylist()]


def _answer(row: dict[str, Any]) -> Answer:
    return Answer(
        row["row"],
        json.loads(row["columns"]),
        json.loads(row["answer"]) if row.get("answer") else {},
        row["__inference_error__"] or "",
    )


def _source(blocks: Sequence[Block]) -> Any:
    import pyarrow
    from ray.data import Datasource
    from ray.data.block import BlockMetadata
    from ray.data.datasource import ReadTask

    class Staged(Datasource):  # type: ignore[misc]  # Ray is in the images only
        """Datasource of the blocks, each in its own task."""

        def get_name(self) -> str:
            return "Staged"

        def estimate_inmemory_data_size(self) -> int:
            return sum(block.length for block in blocks)

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            return [_task(block) for block in blocks]

    def _task(block: Block) -> Any:
        def read() -> Iterable[Any]:
            rows = [json.loads(line) for line in block.lines()]
            yield pyarrow.table(
                {
                    "row": pyarrow.array([row["id"] for row in rows], pyarrow.int64()),
                    "columns": pyarrow.array([json.dumps(row["columns"]) for row in rows], pyarrow.string()),
                }
            )

        metadata = BlockMetadata(
            num_rows=block.rows, size_bytes=block.length, input_files=None, exec_stats=None
        )
        return ReadTask(read, metadata)

    return Staged()


def prepare_rows(
    request: Request, tokenizer: Any, rows: Iterable[tuple[int, str]], adapters: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return rows for the engine stage; a row that makes no request has its error there."""
    found: list[dict[str, Any]] = []
    for row, columns in rows:
        text, error = "", ""
        try:
            text = as_text(prepared(request, tokenizer, json.loads(columns), adapters))
        except RowError as problem:
            error = str(problem)[:ERROR_LIMIT]
        except Exception as problem:  # noqa: BLE001 -- an error of one row must not stop the others
            error = f"no request can be made of the row: {type(problem).__name__}: {problem}"[:ERROR_LIMIT]
        found.append(dict(zip(_TEXT_COLUMNS, (row, columns, text, "", error), strict=True)))
    return found


async def in_json(
    udf: AsyncIterator[dict[str, Any]], index: str, most: Mapping[int, int | None], task: str = "generate"
) -> AsyncIterator[dict[str, Any]]:
    """Yield the engine stage's output of each row as text; `most` has the maximum number of tokens by row."""
    async for output in udf:
        error = str(output.get("__inference_error__") or "")[:ERROR_LIMIT]
        answer = {} if error else _result_of(output, most.get(output[index]))
        if task == "score" and not error:
            answer, error = _score(answer)
        # The request was used: its tokens and images need not go to the head in addition to the row's
        # columns.
        found = {"request": "", "answer": as_text(answer), "__inference_error__": error}
        yield {index: output[index], **found}


def _score(answer: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the single number of an answer, or the reason why there is none."""
    found = answer["response"]
    if isinstance(found, list) and len(found) == 1:
        return {**answer, "response": found[0]}, ""
    count = len(found) if isinstance(found, list) else 0
    return {}, f"the model gives {count} numbers and no score: take one with one label, or task classify"


def _result_of(output: dict[str, Any], most: int | None) -> dict[str, Any]:
    vector = output.get("embeddings")
    if vector is not None:
        found = vector.tolist() if hasattr(vector, "tolist") else vector
        return {"response": found, "prompt_tokens": output.get("num_input_tokens")}
    tokens = output.get("num_generated_tokens") or 0
    return {
        "response": output.get("generated_text"),
        "prompt_tokens": output.get("num_input_tokens"),
        "completion_tokens": tokens,
        # Ray's stage does not forward the finish reason.
        "finish_reason": "length" if most is not None and tokens >= most else "stop",
    }
