"""The plan of a cluster, which `klamm serve`, `klamm.Cluster`, `klamm.ServerProcess` and the pytest fixtures all build.

The plan combines the options of `klamm.cluster.options` with the broker configs; contradictions raise SettingsError.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from klamm.cluster.emulated import plan_versions, refuse_contradictions, release_of, warn_of_newer_configs
from klamm.cluster.inter_broker import BY_PLAINTEXT, InterBrokerPlan, plan_inter_broker
from klamm.cluster.listener_plan import decided_by_options, plan_listeners, warn_of_security
from klamm.cluster.log_dirs import with_log_dirs
from klamm.cluster.options import ClusterOptions
from klamm.cluster.topic_policy import TopicPolicy, named_topic_policy
from klamm.cluster.twin_configs import with_configs_of_twin
from klamm.controller.data_limits import DEFAULT_DATA_LIMITS, MAX_REPLICATION_RATE, DataLimits
from klamm.controller.metadata_log import CONTROLLER_ID
from klamm.controller.settings import IDENTITY_CONFIGS, MAX_SHOWN_NAMES, Settings, SettingsError, load_settings
from klamm.protocol.printable import first_of
from klamm.quick_dataclasses import dataclass
from klamm.server.addresses import Address
from klamm.server.faults.rule import FaultRule
from klamm.server.listeners import ListenerPlan, default_plan

if TYPE_CHECKING:
    from klamm.cluster.easy_security import EasySecurity

FREE_PORTS = Address("127.0.0.1", 0)
FREE_LISTENERS = default_plan(FREE_PORTS)
FIRST_BROKER_IDS: Final = (1, 2, 3)
_NEEDED_BROKERS: Final = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 2,
}
"""The configs of internal topics that count brokers, with Kafka's defaults. In a smaller cluster the number of brokers
is the static value, which DescribeConfigs shows. With a controller's listener more brokers may come from outside: then
the defaults stay, and a topic has at most as many replicas as there are brokers for it when it is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """Everything that `open_cluster` needs to start a cluster."""

    settings: Settings
    listeners: ListenerPlan = FREE_LISTENERS
    inter_broker: InterBrokerPlan = BY_PLAINTEXT
    """How simulated brokers reach real ones."""
    broker_ids: tuple[int, ...] = FIRST_BROKER_IDS
    """The brokers at the start. The first one has the ports of `listeners`, and the others have the next ports."""
    racks: tuple[str | None, ...] = ()
    data_dir: Path | None = None
    twin: Path | None = None
    """The metadata that the cluster begins with, and its brokers instead of `broker_ids` and `racks`."""
    keep_history: bool = False
    """Whether snapshots delete nothing from the metadata log."""
    request_log: Path | None = None
    request_topic: str | None = None
    """The topic that has the lines of the request log as records; None: no topic has them."""
    keeps_requests: bool = False
    """Whether the newest requests are kept in memory, for tests that ask for them."""
    counts_requests: bool = False
    """Whether requests are counted, for the metrics."""
    cluster_id: str | None = None
    """The id of a new cluster; a data directory with another id is refused. None: a generated id."""
    topic_policy: TopicPolicy | None = None
    """The create-topic policy; it is called for each topic before the topic is created."""
    kept_files: int = 0
    """The number of open files that neither the cluster nor its clients use, such as those of the control interface."""
    start_ms: int | None = None
    """The cluster's time at its start, in ms since 1970; None: the real time. Tests that compare bytes set it."""
    fault_rules: tuple[FaultRule, ...] = ()
    """Rules of simulated faults that apply from the start."""
    journal_bodies: bool = False
    """Whether the newest requests are kept with their bodies."""
    clock: Literal["real", "manual"] = "real"
    """Whether the cluster's time goes on by itself, or is advanced by hand."""
    security: "EasySecurity | None" = field(default=None, compare=False)
    """Certificates and users that Klamm makes; None: there are none."""
    warnings: tuple[str, ...] = ()
    """Options and configs that have no effect; `open_cluster` logs them."""


_SETTINGS: Final = (
    "kip_578_versions", "client_telemetry", "dynamic_quorum", "real_topics", "snapshot_records", "add_scram"
)  # fmt: skip
"""The options that are settings under the same name."""


def plan_cluster(
    options: ClusterOptions,
    environ: Mapping[str, str],
    default_listen: Address,
    topic_policy: TopicPolicy | None = None,
) -> ClusterPlan:
    """The plan for these options and configs.

    Args:
        environ: environment variables; each `KAFKA_…` variable is a broker config.
        default_listen: the address of the first broker if neither an option nor a config has one.
        topic_policy: replaces the policy that a config names.
    Raises:
        SettingsError: an option or a config is invalid; the text is one line that names it.
    """
    _refuse_beside_a_twin(options)
    settings, warnings = load_settings(
        options.config,
        environ,
        options.sets,
        options.broker_sets,
        options.profile,
        options.seed,
        configs=options.configs,
        broker_configs=options.broker_configs,
        decided=decided_by_options(options),
        release=release_of(options),
    )
    given = with_log_dirs(options, settings)
    settings = with_configs_of_twin(options.twin, given)
    broker_ids = _broker_ids(options, combined := settings.combined_node_id)
    settings = _with_options(options, settings, broker_ids, combined)
    listeners = plan_listeners(options, settings, default_listen, broker_ids, easy := _easy_security(options))
    refuse_contradictions(settings, listeners)
    between = plan_inter_broker(options, settings, listeners)
    return ClusterPlan(
        settings=settings,
        listeners=listeners,
        inter_broker=between,
        security=easy,
        broker_ids=broker_ids,
        racks=options.racks,
        data_dir=options.data_dir,
        twin=options.twin,
        keep_history=_keeps_history(options),
        request_log=options.request_log,
        request_topic=_request_topic(options, broker_ids),
        cluster_id=options.cluster_id,
        topic_policy=named_topic_policy(settings) if topic_policy is None else topic_policy,
        start_ms=options.start_ms,
        fault_rules=_fault_rules(options.faults),
        journal_bodies=options.journal_bodies,
        clock=options.clock,
        warnings=(*warnings, *_warnings(given, options, broker_ids, listeners), *between.warnings),
    )


def _with_options(
    options: ClusterOptions, settings: Settings, broker_ids: Sequence[int], combined: int | None
) -> Settings:
    return replace(
        settings,
        controller_id=combined if combined in broker_ids else None,
        **plan_versions(options),
        data_limits=_data_limits(options),
        **{name: getattr(options, name) for name in _SETTINGS},
        static_configs={**_for_few_brokers(options, len(broker_ids)), **settings.static_configs},
    )


def _request_topic(options: ClusterOptions, broker_ids: Sequence[int]) -> str | None:
    if options.request_topic is not None and not (broker_ids or options.twin):
        raise SettingsError("request_topic needs a simulated broker, which has the topic")
    return options.request_topic


def _warnings(
    settings: Settings, options: ClusterOptions, broker_ids: Sequence[int], listeners: ListenerPlan
) -> list[str]:
    """One warning for each kind of option or config without effect."""
    return [
        *_without_effect(settings, options),
        *_without_broker(settings, broker_ids),
        *warn_of_security(settings, listeners),
        *warn_of_newer_configs(settings, release_of(options)),
    ]


def _data_limits(options: ClusterOptions) -> DataLimits:
    return DataLimits(
        replication_rate=_replication_rate(options),
        memory_bytes=options.data_memory_bytes,
        file_bytes=options.data_file_bytes,
    )


def _refuse_beside_a_twin(options: ClusterOptions) -> None:
    """Raises SettingsError for options that say what the twin's metadata says."""
    if options.twin is None:
        return
    beside = {
        "a data directory": options.data_dir is not None,
        "a number of brokers": options.brokers is not None,
        "broker ids": bool(options.broker_ids),
        "racks": bool(options.racks),
        "a cluster id": options.cluster_id is not None,
    }
    for name, is_given in beside.items():
        if is_given:
            raise SettingsError(
                f"{name} cannot be given beside a twin, which has the brokers and the id of its cluster"
            )


def _broker_ids(options: ClusterOptions, combined: int | None) -> tuple[int, ...]:
    """The ids of the brokers at the start. `combined` is that of the broker that is the controller, too, according to
    the configs: without broker ids, it is the first. Raises SettingsError if the options contradict each other."""
    chosen = options.broker_ids
    if not chosen:
        first = FIRST_BROKER_IDS[0] if combined is None else combined
        brokers = len(FIRST_BROKER_IDS) if options.brokers is None else options.brokers
        return tuple(range(first, first + brokers))
    if options.brokers not in (None, len(chosen)):
        raise SettingsError(f"the number of brokers is {options.brokers}, and {len(chosen)} broker ids are given")
    if CONTROLLER_ID in chosen and combined not in chosen:
        raise SettingsError(f"broker id {CONTROLLER_ID} is not possible, because it is the controller's")
    return chosen


def _replication_rate(options: ClusterOptions) -> int:
    """Followers fetch at once while a manual clock stands still, unless a rate is given."""
    is_default = options.replication_rate == DEFAULT_DATA_LIMITS.replication_rate
    return MAX_REPLICATION_RATE if options.clock == "manual" and is_default else options.replication_rate


def _fault_rules(path: Path | None) -> tuple[FaultRule, ...]:
    if path is None:
        return ()
    from klamm.cluster.fault_rules import read_fault_file

    try:
        return read_fault_file(path)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _easy_security(options: ClusterOptions) -> "EasySecurity | None":
    if options.security is None and not options.users:
        return None
    from klamm.cluster.easy_security import easy_security

    return easy_security(options)


def _keeps_history(options: ClusterOptions) -> bool:
    """Whether `klamm pipeline` may need the whole metadata log: a request log names offsets in it."""
    logged = options.data_dir is not None and options.request_log is not None
    return options.keep_history or options.snapshot_records == 0 or logged


def _for_few_brokers(options: ClusterOptions, brokers: int) -> dict[str, str]:
    """The configs of internal topics for which the default needs more brokers than there will be."""
    if options.twin is not None or options.controller_listener is not None:
        return {}
    return {name: str(brokers) for name, default in _NEEDED_BROKERS.items() if 0 < brokers < default}


def _without_effect(settings: Settings, options: ClusterOptions) -> list[str]:
    """Warnings that name the configs that do nothing here, unless they have their defaults, or the option that decides
    instead is given."""
    given = dict(settings.static_configs)
    for own in settings.broker_static_configs.values():
        given |= own
    if not given:
        return []
    from klamm.controller.config_definitions.effects import without_effect

    nothing, decided = without_effect({name: value for name, value in given.items() if name not in IDENTITY_CONFIGS})
    if options.data_dir is not None:
        decided = {name: by for name, by in decided.items() if by != "--data-dir"}
    warnings = []
    if nothing:
        warnings.append(f"these configs are stored and shown, and have no other effect here: {_named(nothing)}")
    if decided:
        named = [f"{name} ({by})" for name, by in decided.items()]
        warnings.append(f"options or the simulation decide, so these configs have no effect: {_named(named)}")
    return warnings


def _named(names: Sequence[str]) -> str:
    return first_of(names, MAX_SHOWN_NAMES)


def _without_broker(settings: Settings, broker_ids: Sequence[int]) -> list[str]:
    """A warning if there are configs for brokers that do not start now. It is no error: they may be added later."""
    absent = sorted(settings.broker_static_configs.keys() - set(broker_ids))
    if not absent:
        return []
    named = _named([str(broker_id) for broker_id in absent])
    started = _named([str(broker_id) for broker_id in broker_ids])
    return [f"--broker-set names brokers that are not started: {named}; started are {started}"]
