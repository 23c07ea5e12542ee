"""The full cluster with all its images: what `make up` and `make e2e` begin with."""

from collections.abc import Callable

from cluster import full
from cluster.images import catalog
from cluster.tools.alongside import alongside
from cluster.tools.locks import lock
from cluster.tools.report import Report


def up(report: Report, then: Callable[[], None] = lambda: None) -> None:
    """Bring the cluster up and put all images into it.

    Args:
        report: Where progress is told.
        then: What is done as soon as the cluster has Daybreak's own images, which are there long before
            Ray's.
    """
    # The images need it too: their builder is one of the packages.
    full.prepare(report)
    # Images are built while the cluster starts: the one uses the disk while the other waits.
    with alongside(lambda: catalog.build(report=report)) as built:
        with lock("cluster"):
            full.start(report)
        if built.done():
            built.result()  # what has failed already is not tried a second time below
        catalog.ensure(catalog.OURS, report)
        then()
        built.result()
    catalog.ensure(report=report)
