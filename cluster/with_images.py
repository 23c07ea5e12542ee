"""Full cluster with all its images, the first step of `make up` and `make e2e`."""

from collections.abc import Callable

from cluster import full
from cluster.images import catalog
from cluster.tools.alongside import alongside
from cluster.tools.locks import lock
from cluster.tools.report import Report


def up(report: Report, then: Callable[[], None] = lambda: None) -> None:
    """Start the cluster and load all images into it.

    Args:
        report: Output of progress.
        then: Function to call when the cluster has Daybreak's own images, long before Ray's.
    """
    # The images need it too: their builder is one of the packages.
    full.prepare(report)
    # Images are built while the cluster starts: one of the two uses the disk while the other waits.
    with alongside(lambda: catalog.build(report=report)) as built:
        with lock("cluster"):
            full.start(report)
        if built.done():
            built.result()  # a failed build is not repeated below
        catalog.ensure(catalog.OURS, report)
        then()
        built.result()
    catalog.ensure(report=report)
