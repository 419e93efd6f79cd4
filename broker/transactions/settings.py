"""The broker configs of transactions, as one value. All of them are read when a shard begins."""

from klamm.controller.settings import Settings
from klamm.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Kafka's configs of similar names; times in ms."""

    max_timeout_ms: int
    """`transaction.max.timeout.ms`: the longest timeout that a producer may ask for."""
    expiration_ms: int
    """`transactional.id.expiration.ms`"""
    abort_check_interval_ms: int
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`"""
    expiration_check_interval_ms: int
    """`transaction.remove.expired.transaction.cleanup.interval.ms`"""


def transaction_settings(settings: Settings, broker_id: int) -> TransactionSettings:
    """The configs of one broker."""
    return TransactionSettings(
        max_timeout_ms=settings.static_int("transaction.max.timeout.ms", broker_id),
        expiration_ms=settings.static_int("transactional.id.expiration.ms", broker_id),
        abort_check_interval_ms=settings.static_int(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms", broker_id
        ),
        expiration_check_interval_ms=settings.static_int(
            "transaction.remove.expired.transaction.cleanup.interval.ms", broker_id
        ),
    )
