"""As which releases of Apache Kafka the brokers of a cluster act, from its options. What contradicts raises
SettingsError."""

from dataclasses import replace
from typing import TypedDict

from klamm.cluster.options import ClusterOptions
from klamm.controller.config_definitions.table import broker_definitions
from klamm.controller.metadata_versions import FIRST_LEVEL_WITH_SCRAM, METADATA_VERSIONS
from klamm.controller.releases import (
    CURRENT,
    NO_EMULATION,
    Emulation,
    decode_max_versions,
    decode_metadata_version,
    decode_releases,
)
from klamm.controller.settings import MAX_SHOWN_NAMES, Settings, SettingsError
from klamm.controller.transitions.features import new_metadata_version
from klamm.protocol.printable import first_of
from klamm.server.listeners import ListenerPlan


class VersionSettings(TypedDict):
    """The fields of `Settings` with versions."""

    emulation: Emulation
    metadata_version: int | None


def plan_versions(options: ClusterOptions) -> VersionSettings:
    """What the options ask for."""
    level = None if options.metadata_version is None else decode_metadata_version(options.metadata_version)
    return {"emulation": _emulation(options), "metadata_version": level}


def release_of(options: ClusterOptions) -> str:
    """The name of the release as which the brokers act for all clients: its configs are those that count."""
    return _emulation(options).release.name


def warn_of_newer_configs(settings: Settings, release: str) -> list[str]:
    """A warning that names configs which the release lacks, and which have their effect here all the same."""
    if release == CURRENT.name:
        return []
    from klamm.controller.config_definitions.effects import effect_of

    of_release = broker_definitions(release)
    given = {name for own in (settings.static_configs, *settings.broker_static_configs.values()) for name in own}
    newer = [
        name
        for name in sorted(given)
        if name in broker_definitions() and name not in of_release and effect_of(name).is_obeyed
    ]
    if not newer:
        return []
    named = first_of(newer, MAX_SHOWN_NAMES)
    return [f"Kafka {release} does not have these configs, which have the same effect as in {CURRENT.name}: {named}"]


def refuse_scram_in_an_old_log(settings: Settings) -> None:
    """Refuse SCRAM credentials for a new log that has no records for them, as `kafka-storage format` does."""
    if settings.add_scram and new_metadata_version(settings) < FIRST_LEVEL_WITH_SCRAM:
        first = METADATA_VERSIONS[FIRST_LEVEL_WITH_SCRAM]
        raise SettingsError(f"add_scram: SCRAM is only supported in metadata.version {first} or later")


def _emulation(options: ClusterOptions) -> Emulation:
    emulation = NO_EMULATION
    if options.kafka_version is not None:
        emulation = decode_releases(options.kafka_version)
    if options.max_version is None:
        return emulation
    return replace(emulation, max_versions=_max_versions(options.max_version, emulation))


def refuse_contradictions(settings: Settings, listeners: ListenerPlan) -> None:
    """Refuse what the releases and the metadata.version of the settings do not allow."""
    refuse_without_listener(settings.emulation, listeners)
    refuse_scram_in_an_old_log(settings)


def refuse_without_listener(emulation: Emulation, listeners: ListenerPlan) -> None:
    """Refuse a release for a listener that does not exist, and one without KRaft for a cluster with a controller's
    listener."""
    among = [*listeners.brokers, *(one for some in listeners.of_single.values() for one in some)]
    names = list(dict.fromkeys(one.name for one in among))
    for name in emulation.by_listener:
        if name not in names:
            raise SettingsError(f"Kafka version: no broker has a listener {name!r} (known: {', '.join(names)})")
    if listeners.controller is not None and emulation.release.has_zookeeper:
        release = emulation.release.name
        raise SettingsError(f"Kafka version {release}: its controller has no listener; 3.3 is the first with one")


def _max_versions(text: str, emulation: Emulation) -> dict[int, int]:
    from klamm.broker.dispatch import APIS
    from klamm.controller.served_apis import serve

    try:
        found = decode_max_versions(text, {api.name: api.key for api in APIS})
    except ValueError as error:
        raise SettingsError(f"max version: {error}") from None
    tables = serve(APIS, emulation=emulation)
    every = [tables.tables, *tables.by_listener_name.values(), *(of for _, of in tables.by_client_id)]
    for key, newest in found.items():
        served = [table[key] for of in every for table in of.values() if key in table]
        if not served:
            name = next(api.name for api in APIS if api.key == key)
            raise SettingsError(f"max version: {name} is not served by Kafka {emulation.release.name}")
        for one in served:
            first, last = one.answered.start, one.answered[-1]
            if newest < first:
                raise SettingsError(f"max version: {one.api.name}={newest} is below the first version, {first}")
            if newest > last and all(newest > other.answered[-1] for other in served):
                raise SettingsError(f"max version: {one.api.name}={newest} is above the newest version, {last}")
    return found
