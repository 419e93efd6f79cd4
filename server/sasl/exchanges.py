"""The mechanisms of a listener: for each, the function that begins an exchange."""

from functools import partial

from klamm.server.sasl.mechanism import NewExchange
from klamm.server.sasl.plain import Plain
from klamm.server.sasl.settings import SaslSettings


def exchanges_of(settings: SaslSettings) -> dict[str, NewExchange]:
    """By the name of the mechanism, for the enabled ones."""
    known: dict[str, NewExchange] = {"PLAIN": partial(Plain, settings.plain_users)}
    return {name: known[name] for name in settings.mechanisms}
