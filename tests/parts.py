"""The parts that every kind is built with, around a cache that a test fills."""

from typing import Any, cast

from daybreak.controller.asking.other_pods import OtherPods
from daybreak.controller.parts import Parts
from daybreak.controller.watching.booked_watch import BookedWatch
from daybreak.controller.watching.node_watch import NodeWatch
from daybreak.controller.watching.turn_watch import TurnWatch
from daybreak.kube.client import Api
from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.watches import Watches
from daybreak.kube.writing.apply import Applier
from daybreak.platform import Platform


def parts(cache: Cache, watches: Any, platform: Platform, api: Any = None) -> Parts:
    """Build them, with a lease that is always held and a queue that drops what is enqueued.

    Args:
        cache: Objects that the operator knows.
        watches: A `Watches`, or a stand-in.
        platform: Settings of the installation.
        api: An `Api`, or a stand-in; None where a test calls no API server.
    """
    nodes = NodeWatch(cache, cast(Watches, watches))
    return Parts(
        api=cast(Api, api),
        cache=cache,
        watches=cast(Watches, watches),
        platform=platform,
        applier=Applier(cast(Api, api), cache),
        nodes=nodes,
        turns=TurnWatch(nodes, lambda *_: None),
        booked=BookedWatch(cache),
        others=OtherPods(cast(Api, api)),
        enqueue=lambda *_: None,
        may_act=lambda: True,
    )
