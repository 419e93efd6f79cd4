"""A context for handlers and transitions that are called without a controller."""

import numpy as np

from klamm.controller.context import ClusterIdentity, RequestContext
from klamm.controller.liveness import BrokerLiveness
from klamm.controller.local_brokers import NO_BROKERS
from klamm.controller.metadata_log import CONTROLLER_ID
from klamm.controller.observers import Observers
from klamm.controller.requester import Requester
from klamm.controller.sessions import BrokerSessions
from klamm.controller.settings import Settings


class _NoDepartures:
    departing = ()
    losses_pending = False


def make_context(
    *, settings: Settings | None = None, api_version: int, seed: int = 0, broker_id: int | None = None
) -> RequestContext:
    """A context at time 0 and log end offset 0, in a cluster whose brokers have never sent a heartbeat."""
    settings = settings or Settings()
    return RequestContext(
        requester=Requester(asked_broker_id=broker_id),
        api_version=api_version,
        access=None,
        served={},
        now_ms=0,
        log_end_offset=0,
        rng=np.random.default_rng(seed),
        settings=settings,
        cluster=ClusterIdentity("cluster", CONTROLLER_ID),
        root_log_level=lambda _node_id: None,
        liveness=BrokerLiveness(
            BrokerSessions(settings.broker_session_timeout_ms), NO_BROKERS.replication, Observers(), _NoDepartures()
        ),
    )
