"""`python -m daybreak_runtime.batch`: run the batch of the variable DAYBREAK_BATCH."""

import contextlib
import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from daybreak_runtime.batch.order import Order
from daybreak_runtime.batch.output import Answer, Fenced, Output
from daybreak_runtime.batch.progress import Progress
from daybreak_runtime.batch.rows import columns, requests
from daybreak_runtime.batch.rows.reading import input_files, rows
from daybreak_runtime.batch.rows.staging import Staged, stage
from daybreak_runtime.batch.watch import EXIT_STATUS, STILL_SECONDS, Watch
from daybreak_runtime.jobs.json_text import replace_surrogates
from daybreak_runtime.jobs.problem import JobProblem
from daybreak_runtime.jobs.storage import storage

TOO_MANY_ERRORS, JOB_FAILED = "TooManyErrors", "JobFailed"
OWN_ERROR = "daybreak.batch failed: "
"""Start of the last line of the log of a failed batch. The operator parses the JSON after it, because Ray
reports the end of the log, and engines write there last."""
_MESSAGE_LIMIT = 1500
"""Maximum length of a message in that line, in characters: Ray keeps 20,000 of the log."""
log = logging.getLogger("daybreak.batch")


def run(order: Order, progress: Progress, folder: Path) -> None:
    """Run a batch to its end. Raises JobProblem if a retry would not help."""
    requests.check(order.request)
    source, output = storage(order.input.uri), Output(order, storage(order.output.uri))
    files = input_files(order.input, source)
    # Before anything is written: after a fix of the field the same output may be used again.
    columns.check(order.request, rows(order.input, files, source))
    output.begin(files)
    block = order.engines.batch_size if order.engines else 64
    staged = stage(rows(order.input, files, source), output.done, folder, block)
    log.info("%d rows, of which %d are done", staged.total, len(output.done))
    _keep(order, progress, output, staged.total, staged.broken)
    progress.state("Starting")
    watch = Watch(end=_end_still)
    try:
        for batch in _answers(order, staged):
            watch.touch()
            progress.state("Running")
            _keep(order, progress, output, staged.total, batch)
    finally:
        watch.close()
    output.finish()
    _notify(progress, output, staged.total)
    if len(output.done) < staged.total:
        raise RuntimeError(f"{staged.total - len(output.done)} rows came back without an answer or an error")
    if staged.total and output.failed == staged.total:
        first = output.first_errors[0]
        raise JobProblem(TOO_MANY_ERRORS, f"All {staged.total} rows failed; first error: {first}")


def _answers(order: Order, staged: Staged) -> Iterator[list[Answer]]:
    if order.service is not None:
        from daybreak_runtime.batch.service import answers as of_service

        table = order.output.format != "OpenAI"
        return of_service(order.service, order.request, staged.blocks, table=table)
    if order.engines is None:
        raise ValueError("neither engines nor a service")
    from daybreak_runtime.batch.engines import answers

    return answers(order.engines, order.request, staged.blocks)


def _keep(order: Order, progress: Progress, output: Output, total: int, batch: Iterable[Answer]) -> None:
    output.take(batch)
    _notify(progress, output, total)
    most = 0 if order.fail_on_error else order.max_failed_rows
    if most is not None and output.failed > most:
        output.flush()
        _notify(progress, output, total)
        raise JobProblem(
            TOO_MANY_ERRORS,
            f"{output.failed} rows have failed, and {most} may; the first: {output.first_errors[0]}",
        )


def _notify(progress: Progress, output: Output, total: int) -> None:
    progress.errors(output.first_errors)
    progress.rows(
        total=total,
        done=output.written,
        failed=output.failed,
        prompt_tokens=output.prompt_tokens,
        completion_tokens=output.completion_tokens,
    )


def main() -> int:
    """Run the program. Returns its exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    try:
        return _main()
    except Exception as error:
        log.exception("the batch failed")
        _shut_down_ray()
        _write_own_error(JOB_FAILED, _described(error))
        return 1


def _main() -> int:
    order = Order.from_environment()
    progress = Progress(order.uid)
    progress.listen(order.port)
    with tempfile.TemporaryDirectory(prefix="daybreak-batch-") as folder:
        try:
            run(order, progress, Path(folder))
        except JobProblem as problem:
            log.error("%s: %s", problem.reason, problem.message)
            # If the operator has received the failure, it knows that it is permanent, and KubeRay need not
            # retry.
            received = progress.end(problem.reason, problem.message)
            _shut_down_ray()
            _write_own_error(problem.reason, problem.message)
            return 0 if received else 1
        except Fenced as error:
            log.error("%s", error)
            return 1
    progress.end()
    return 0


def _shut_down_ray() -> None:
    """Stop the threads of Ray that write the workers' output into this log."""
    ray = sys.modules.get("ray")
    if ray is not None:
        with contextlib.suppress(Exception):
            ray.shutdown()


def _write_own_error(reason: str, message: str) -> None:
    report = {"reason": reason, "message": replace_surrogates(message[:_MESSAGE_LIMIT])}
    sys.stdout.flush()
    print(f"{OWN_ERROR}{json.dumps(report)}", file=sys.stderr, flush=True)


def _described(error: Exception) -> str:
    """Return type and text of an error; for an error from a Ray worker, those of its cause."""
    cause = getattr(error, "cause", None)
    shown = cause if isinstance(cause, Exception) else error
    lines = str(shown).strip().splitlines()
    # Ray's own errors have the worker's whole traceback as their text, which ends with its exception.
    traceback = any(line.lstrip().startswith(("ray::", "File ", "Traceback (")) for line in lines)
    return f"{type(shown).__name__}: {lines[-1].strip() if traceback else str(shown)}"


def _end_still() -> None:
    _write_own_error(JOB_FAILED, f"no row was answered for {STILL_SECONDS:g} s")
    os._exit(EXIT_STATUS)


if __name__ == "__main__":
    sys.exit(main())
