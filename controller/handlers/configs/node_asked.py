"""The node that a request asked: its id, and the static configs that make it that node in Kafka.

Only the node itself answers for its configs and loggers. Its identity configs are derived from its registration; no
client sets them.
"""

from collections.abc import Iterable
from typing import Final

from klamm.controller.config_definitions.table import broker_definitions
from klamm.controller.configs import BrokerConfigs, broker_configs, usable_broker_configs
from klamm.controller.context import RequestContext
from klamm.controller.metadata.broker import EndPoint
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.releases import Release
from klamm.controller.served_apis import release_of
from klamm.controller.settings import IDENTITY_CONFIGS

_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_CONTROLLER_LISTENER: Final = "CONTROLLER"
_WITH_CONTROLLERS: Final = frozenset({"controller.listener.names", "process.roles"})
"""Configs that a broker with ZooKeeper does not set."""


def own_node_id(context: RequestContext) -> int:
    """The node that was asked."""
    return (
        context.cluster.controller_id
        if context.requester.asked_broker_id is None
        else context.requester.asked_broker_id
    )


def configs_of_node_asked(image: MetadataImage, context: RequestContext) -> BrokerConfigs:
    """The configs of the node that was asked, as far as it can use them, with its identity and its listeners."""
    release = release_of(context.served)
    configs = broker_configs(image.configs, context.settings, own_node_id(context), release.name)
    own = usable_broker_configs(dict(configs.dynamic_broker), release.name, for_one_broker=True)
    default = usable_broker_configs(dict(configs.dynamic_default), release.name, for_one_broker=False)
    return BrokerConfigs(
        dynamic_broker=tuple(own.items()),
        dynamic_default=tuple(default.items()),
        static=_with_identity(image, dict(configs.static), context, release),
        release=release.name,
    )


def _with_identity(
    image: MetadataImage, static: dict[str, str], context: RequestContext, release: Release
) -> tuple[tuple[str, str], ...]:
    """The static configs of the node that was asked, with the identity that its server.properties would contain."""
    identity = _identity(image, static, context)
    if release.has_zookeeper:
        identity = {name: value for name, value in identity.items() if name not in _WITH_CONTROLLERS}
    defined = broker_definitions(release.name)
    # A server.properties of a former release does not contain what later releases added.
    later = (broker_definitions().keys() - defined.keys()) | IDENTITY_CONFIGS
    others = {name: value for name, value in static.items() if name not in later}
    return tuple({**{name: value for name, value in identity.items() if name in defined}, **others}.items())


def _identity(image: MetadataImage, static: dict[str, str], context: RequestContext) -> dict[str, str]:
    own = own_node_id(context)
    broker = image.brokers.get(own) if context.requester.asked_broker_id is not None else None
    end_points = broker.end_points if broker else ()
    configs = {"controller.listener.names": _CONTROLLER_LISTENER}
    configs["process.roles"] = "controller" if context.requester.asked_broker_id is None else "broker"
    if end_points:
        configs["inter.broker.listener.name"] = end_points[0].name
        controllers = static.get("controller.listener.names", _CONTROLLER_LISTENER)
        configs["listener.security.protocol.map"] = _protocol_map(controllers, end_points)
    # Kafka sets the old name of the id, broker.id, to the same value.
    configs["node.id"] = configs["broker.id"] = str(own)
    if end_points:
        configs["listeners"] = configs["advertised.listeners"] = ",".join(map(_url, end_points))
    if broker and broker.rack is not None:
        configs["broker.rack"] = broker.rack
    return configs


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
