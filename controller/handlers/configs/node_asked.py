"""The node that a request asked: its id, and the static configs that make it that node in Kafka.

Only the node itself answers for its configs and loggers. Its identity configs are derived from its registration; no
client sets them.
"""

from collections.abc import Iterable
from typing import Final

from klamm.controller.configs import BrokerConfigs, broker_configs, usable_broker_configs
from klamm.controller.context import RequestContext
from klamm.controller.metadata.broker import EndPoint
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.settings import IDENTITY_CONFIGS

_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_CONTROLLER_LISTENER: Final = "CONTROLLER"


def own_node_id(context: RequestContext) -> int:
    """The node that was asked."""
    return (
        context.cluster.controller_id
        if context.requester.asked_broker_id is None
        else context.requester.asked_broker_id
    )


def configs_of_node_asked(image: MetadataImage, context: RequestContext) -> BrokerConfigs:
    """The configs of the node that was asked, as far as it can use them, with its identity and its listeners."""
    configs = broker_configs(image.configs, context.settings, own_node_id(context))
    return BrokerConfigs(
        dynamic_broker=tuple(usable_broker_configs(dict(configs.dynamic_broker), for_one_broker=True).items()),
        dynamic_default=tuple(usable_broker_configs(dict(configs.dynamic_default), for_one_broker=False).items()),
        static=_with_identity(image, dict(configs.static), context),
        defaults=configs.defaults,
    )


def _with_identity(
    image: MetadataImage, static: dict[str, str], context: RequestContext
) -> tuple[tuple[str, str], ...]:
    """The static configs of the node that was asked, with the identity that its server.properties would contain."""
    own = own_node_id(context)
    broker = image.brokers.get(own) if context.requester.asked_broker_id is not None else None
    end_points = broker.end_points if broker else ()
    configs = {"controller.listener.names": _CONTROLLER_LISTENER}
    configs["process.roles"] = "controller" if context.requester.asked_broker_id is None else "broker"
    if end_points:
        configs["inter.broker.listener.name"] = end_points[0].name
        controllers = static.get("controller.listener.names", _CONTROLLER_LISTENER)
        configs["listener.security.protocol.map"] = _protocol_map(controllers, end_points)
    configs |= {name: value for name, value in static.items() if name not in IDENTITY_CONFIGS}
    # Kafka sets the old name of the id, broker.id, to the same value.
    configs["node.id"] = configs["broker.id"] = str(own)
    if end_points:
        configs["listeners"] = configs["advertised.listeners"] = ",".join(map(_url, end_points))
    if broker and broker.rack is not None:
        configs["broker.rack"] = broker.rack
    return tuple(configs.items())


def _protocol_map(controllers: str, end_points: Iterable[EndPoint]) -> str:
    protocols = {name.strip(): 0 for name in controllers.split(",")}
    protocols |= {point.name: point.security_protocol for point in end_points}
    known = range(len(_SECURITY_PROTOCOLS))
    return ",".join(
        f"{name}:{_SECURITY_PROTOCOLS[number if number in known else 0]}" for name, number in protocols.items()
    )


def _url(end_point: EndPoint) -> str:
    host = f"[{end_point.host}]" if ":" in end_point.host else end_point.host
    return f"{end_point.name}://{host}:{end_point.port}"
