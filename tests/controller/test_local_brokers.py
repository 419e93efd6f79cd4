"""A controller without brokers in its process: real ones register with it, and it serves its own APIs."""

from klamm.broker import dispatch as broker
from klamm.controller import dispatch
from klamm.controller.core import Call, Controller
from klamm.controller.local_brokers import NO_BROKERS
from klamm.controller.served_apis import serve
from klamm.controller.settings import Settings
from klamm.protocol.messages.configs.incremental_alter_configs import (
    API as INCREMENTAL_ALTER_CONFIGS,
)
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.messages.data import produce
from tests.controller.handlers.cluster import SESSION_MS, DrivenCluster
from tests.controller.handlers.config_requests import LOGGER


def alone(cluster: DrivenCluster) -> Controller:
    """Another controller on the log of a cluster, with its own APIs and no brokers."""
    return Controller(Settings(seed=1), cluster.log, cluster.clock, dispatch.HANDLERS)


def test_it_replays_fences_and_elects_like_any_other() -> None:
    cluster = DrivenCluster(3)
    cluster.create_at("t", [1, 2, 3])
    controller = alone(cluster)
    cluster.clock.advance(SESSION_MS)
    controller.tick()
    while controller.has_work:
        controller.work()
    assert all(known.fenced for known in controller.image.brokers.values())
    topic = controller.image.topics_by_name["t"]
    assert controller.image.partitions.read(topic.row, 0).leader == -1


def test_it_serves_its_own_apis_alone() -> None:
    served = alone(DrivenCluster(1)).served
    assert served == serve(dispatch.HANDLERS)
    assert produce.API.key not in serve(dispatch.HANDLERS).tables["broker"]
    assert not set(dispatch.HANDLERS) & set(broker.BROKER_APIS)
    assert set(broker.APIS) == {*dispatch.HANDLERS, *broker.BROKER_APIS}


def test_the_log_level_of_the_controller_is_its_own() -> None:
    controller = alone(DrivenCluster(1))
    level = AlterableConfig(name="root", config_operation=0, value="WARN")
    resource = AlterConfigsResource(
        resource_type=LOGGER, resource_name=str(controller.identity.controller_id), configs=[level]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    controller.submit(Call(INCREMENTAL_ALTER_CONFIGS, 1, request, "controller"))
    context = controller.context(Call(INCREMENTAL_ALTER_CONFIGS, 1, request, "controller"), 0)
    assert [context.root_log_level(node_id) for node_id in (controller.identity.controller_id, 1)] == ["WARN", None]
    NO_BROKERS.set_root_log_level(1, "DEBUG")
    assert NO_BROKERS.root_log_level(1) is None
