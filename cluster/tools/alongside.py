"""Work in a second thread, which ends if the first one fails."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from cluster.tools.programs import none_running


@contextmanager
def alongside(work: Callable[[], None]) -> Iterator[Future[None]]:
    """Do `work` while the block runs, and wait for it at the block's end.

    If the block fails, the programs that `work` runs are ended. Otherwise the user would wait minutes for a
    result that is no longer needed before seeing the error.
    """
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        try:
            yield future
        except BaseException:
            with none_running():
                pool.shutdown()
            raise
