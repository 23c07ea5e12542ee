"""`python -m daybreak_runtime.benchmark [order.json] [--out FOLDER]`: run a benchmark.

Without a file the variable DAYBREAK_BENCHMARK has the order, as in a pod, and a port reports the progress.
"""

import argparse
import contextlib
import json
import logging
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from daybreak_runtime.benchmark.engines import EngineFailed, fetch, started
from daybreak_runtime.benchmark.load.awake import awake
from daybreak_runtime.benchmark.load.measure import Target
from daybreak_runtime.benchmark.load.recorded import with_recorded
from daybreak_runtime.benchmark.order import Order, Service
from daybreak_runtime.benchmark.outcome import Settings
from daybreak_runtime.benchmark.progress import Progress, plain
from daybreak_runtime.benchmark.report.files import files, kept
from daybreak_runtime.benchmark.report.page import table
from daybreak_runtime.benchmark.run import ENGINE_FAILED, Course, Run, Start
from daybreak_runtime.jobs.problem import JobProblem
from daybreak_runtime.jobs.storage import storage

log = logging.getLogger("daybreak.benchmark")


def start_of(order: Order) -> Start:
    """Return the function that starts engines: a new one for each setting, or none for a service."""

    @contextlib.contextmanager
    def as_it_is(settings: Settings, service: Service | None = order.service) -> Iterator[Target]:
        if service is None or settings:
            raise ValueError("a service takes no settings")
        awake(service)
        yield Target(service.url, service.model, service.key)

    engine = order.engine
    return as_it_is if engine is None else lambda settings: started(engine, settings)


def save(order: Order, report: Mapping[str, bytes]) -> None:
    """Write the report to the requested location. Raises JobProblem."""
    if order.output is None:
        return
    place = storage(order.output)
    for name, content in report.items():
        place.write(name, content)


def main() -> int:
    """Run the program. Returns its exit status."""
    arguments = _parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    alone = arguments.order is not None
    signal.signal(signal.SIGTERM, _leave)
    order = Order.read(_read(arguments)) if alone else Order.from_environment()
    progress = Progress(order.uid)
    if not alone:
        progress.listen(order.port)

    def notify(course: Course) -> None:
        progress.course(course, run.gain, run.noise.relative)

    try:
        order = replace(order, load=with_recorded(order.load))
        run = Run(order, start_of(order), notify)
        _weights(order)
        run.run()
        report = files(order, run)
        if not alone:
            progress.keep(kept(report))
        save(order, report)
    except JobProblem as problem:
        log.error("%s: %s", problem.reason, problem.message)
        # If the operator has received the failure, it knows that it is permanent, and the Job need not retry.
        return 1 if alone or not progress.end(problem.reason, problem.message) else 0
    notify(run.course)
    print(table(plain(run.course, run.gain, run.noise.relative)))
    if not alone:
        progress.end()
    return 0


def _leave(number: int, *_: object) -> None:
    """Exit cleanly: the engine ends with the program. A second signal must not interrupt that."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _weights(order: Order) -> None:
    try:
        if order.engine is not None:
            fetch(order.engine)
    except EngineFailed as error:
        raise JobProblem(ENGINE_FAILED, str(error)) from error


def _read(arguments: argparse.Namespace) -> dict[str, object]:
    found: dict[str, object] = json.loads(arguments.order.read_text())
    if arguments.out is not None:
        found["output"] = f"file://{arguments.out.resolve()}"
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m daybreak_runtime.benchmark", description=__doc__)
    parser.add_argument("order", nargs="?", type=Path, help="a file with the order, as JSON")
    files = "report.html, curve.svg, curve.png and results.json"
    parser.add_argument("--out", type=Path, help=f"folder for {files}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
