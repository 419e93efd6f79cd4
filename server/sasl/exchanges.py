"""The mechanisms of a listener: for each, the function that begins an exchange."""

import secrets
from functools import partial

from klamm.controller.metadata.image import MetadataImage
from klamm.controller.transitions.scram import SCRAM_NAMES
from klamm.server.sasl.credentials import credentials_of
from klamm.server.sasl.mechanism import NewExchange
from klamm.server.sasl.oauthbearer import OAuthBearer
from klamm.server.sasl.plain import Plain
from klamm.server.sasl.scram import Scram
from klamm.server.sasl.settings import SaslSettings


def exchanges_of(settings: SaslSettings, image: MetadataImage, token_key: str | None) -> dict[str, NewExchange]:
    """By the name of the mechanism, for the enabled ones. `token_key` is `delegation.token.secret.key`."""
    known: dict[str, NewExchange] = {"PLAIN": partial(Plain, settings.plain_users)}
    for name, number in SCRAM_NAMES.items():
        known[name] = partial(Scram, number, credentials_of(number, image, token_key), _new_nonce)
    if settings.validate_token is not None:
        known["OAUTHBEARER"] = partial(OAuthBearer, settings.validate_token)
    return {name: known[name] for name in settings.mechanisms}


def _new_nonce() -> str:
    # Not from the seeded generator: a client must not be able to predict it.
    return secrets.token_hex(16)
