"""Names in the steps of `klamm try` that the copy does not have: brokers, racks, and configs that nothing reads."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from klamm.controller.configs import broker_definitions
from klamm.protocol.near_names import did_you_mean
from klamm.protocol.printable import first_of
from klamm.twin import changes
from klamm.twin.changes import InvalidChanges, Step

MOST_LISTED: Final = 20
LISTENER_PREFIX: Final = "listener.name."


def refuse_unknown(steps: Sequence[Step], brokers: Mapping[int, str | None]) -> None:
    """Raises InvalidChanges for the first step with a broker or a rack that the copy does not have: no step adds one.
    `brokers`: the rack of each broker of the copy, those that are fenced included."""
    racks = {rack for rack in brokers.values() if rack is not None}
    for number, step in enumerate(steps, 1):
        match step:
            case changes.LoseBroker(broker_id) | changes.ReturnBroker(broker_id) | changes.Decommission(broker_id):
                if broker_id not in brokers:
                    raise InvalidChanges(
                        f"step {number}: {step}: there is no broker {broker_id} (brokers: {listed(brokers)})"
                    )
            case changes.LoseRack(rack) if rack not in racks:
                known = f"racks: {listed(sorted(racks))}" if racks else "no broker has a rack"
                raise InvalidChanges(
                    f"step {number}: {step}: no broker is in rack {rack!r} ({known}){did_you_mean(rack, racks)}"
                )


def unknown_config_lines(configs: Iterable[str]) -> list[str]:
    """A line for each broker config that neither Kafka nor Klamm knows. The cluster stores it, as Kafka does."""
    known = broker_definitions()
    return [
        f"{name} is no config of brokers and has no effect{did_you_mean(name, known)}"
        for name in configs
        if name not in known and not name.startswith(LISTENER_PREFIX)
    ]


def listed(names: Iterable[object]) -> str:
    """The first of these names."""
    return first_of([str(name) for name in names], MOST_LISTED)
