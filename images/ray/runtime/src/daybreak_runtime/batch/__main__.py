"""`python -m daybreak_runtime.batch`: run the batch that DAYBREAK_BATCH asks for."""

import logging
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
from daybreak_runtime.batch.watch import Watch
from daybreak_runtime.jobs.problem import JobProblem
from daybreak_runtime.jobs.storage import storage

TOO_MANY_ERRORS = "TooManyErrors"
log = logging.getLogger("daybreak.batch")


def run(order: Order, progress: Progress, folder: Path) -> None:
    """Run a batch to its end. Raises JobProblem when trying again would not help."""
    requests.check(order.request)
    source, output = storage(order.input.uri), Output(order, storage(order.output.uri))
    files = input_files(order.input, source)
    # Before anything is written: with the field mended the same output may be named again.
    columns.check(order.request, rows(order.input, files, source))
    output.begin(files)
    block = order.engines.batch_size if order.engines else 64
    staged = stage(rows(order.input, files, source), output.done, folder, block)
    log.info("%d rows, of which %d are done", staged.total, len(output.done))
    _keep(order, progress, output, staged.total, staged.broken)
    progress.state("Starting")
    watch = Watch()
    try:
        for batch in _answers(order, staged):
            watch.touch()
            progress.state("Running")
            _keep(order, progress, output, staged.total, batch)
    finally:
        watch.close()
    output.finish()
    _tell(progress, output, staged.total)
    if len(output.done) < staged.total:
        raise RuntimeError(f"{staged.total - len(output.done)} rows came back without an answer or an error")


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
    _tell(progress, output, total)
    most = 0 if order.fail_on_error else order.max_failed_rows
    if most is not None and output.failed > most:
        output.flush()
        _tell(progress, output, total)
        raise JobProblem(
            TOO_MANY_ERRORS,
            f"{output.failed} rows have failed, and {most} may; the first: {output.first_errors[0]}",
        )


def _tell(progress: Progress, output: Output, total: int) -> None:
    progress.errors(output.first_errors)
    progress.rows(
        total=total,
        done=output.written,
        failed=output.failed,
        prompt_tokens=output.prompt_tokens,
        completion_tokens=output.completion_tokens,
    )


def main() -> int:
    """The program. Returns its exit status."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    order = Order.from_environment()
    progress = Progress(order.uid)
    progress.listen(order.port)
    with tempfile.TemporaryDirectory(prefix="daybreak-batch-") as folder:
        try:
            run(order, progress, Path(folder))
        except JobProblem as problem:
            log.error("%s: %s", problem.reason, problem.message)
            # Who has kept it knows that it has failed for good: KubeRay need not try again.
            return 0 if progress.end(problem.reason, problem.message) else 1
        except Fenced as error:
            log.error("%s", error)
            return 1
    progress.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
