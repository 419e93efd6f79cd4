"""One plan for one cluster: what `klamm serve`, `klamm.Cluster`, `klamm.ServerProcess` and the pytest fixtures come to.

The options are those of `klamm.cluster.options`; here they meet the configs, and what contradicts them is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from klamm.cluster.listener_plan import decided_by_options, plan_listeners, warn_of_security
from klamm.cluster.options import ClusterOptions
from klamm.cluster.topic_policy import TopicPolicy, named_topic_policy
from klamm.controller.data_limits import DataLimits
from klamm.controller.settings import MAX_SHOWN_NAMES, Settings, load_settings
from klamm.server.addresses import Address
from klamm.server.listeners import ListenerPlan, default_plan

FREE_PORTS = Address("127.0.0.1", 0)
FREE_LISTENERS = default_plan(FREE_PORTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """A cluster as it is wanted."""

    settings: Settings
    listeners: ListenerPlan = FREE_LISTENERS
    brokers: int = 3
    racks: tuple[str, ...] = ()
    data_dir: Path | None = None
    request_log: Path | None = None
    cluster_id: str | None = None
    """Of a cluster that has none yet; a data directory of another one is refused. None: made up."""
    topic_policy: TopicPolicy | None = None
    """What has a say in which topics are made."""
    kept_files: int = 0
    """Open files that are neither the cluster's nor its clients', such as those of the control interface."""
    start_ms: int | None = None
    """The time at the start, from which trio's clock counts on; None: now. Tests that compare bytes give one."""
    warnings: tuple[str, ...] = ()
    """What of the options and configs has no effect; told when the cluster is opened."""


def plan_cluster(
    options: ClusterOptions,
    environ: Mapping[str, str],
    default_listen: Address,
    topic_policy: TopicPolicy | None = None,
) -> ClusterPlan:
    """The plan that the options and the configs come to. `environ` has the variables whose configs count.

    Args:
        default_listen: where broker 1 listens if neither an option nor a config says so.
        topic_policy: takes the place of the one that a config names.
    Raises:
        SettingsError: one line that names the config or the option, and what is wrong.
    """
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
    )
    settings = replace(
        settings,
        kip_578_versions=options.kip_578_versions,
        data_limits=DataLimits(
            replication_rate=options.replication_rate,
            bytes_per_partition=options.data_bytes_per_partition,
            bytes_in_all=options.data_bytes,
        ),
        snapshot_records=options.snapshot_records,
    )
    return ClusterPlan(
        settings=settings,
        listeners=plan_listeners(options, settings, default_listen),
        brokers=options.brokers,
        racks=options.racks,
        data_dir=options.data_dir,
        request_log=options.request_log,
        cluster_id=options.cluster_id,
        topic_policy=named_topic_policy(settings) if topic_policy is None else topic_policy,
        start_ms=options.start_ms,
        warnings=(*warnings, *_without_broker(settings, options.brokers), *warn_of_security(settings)),
    )


def _without_broker(settings: Settings, brokers: int) -> list[str]:
    """A warning, if configs are for brokers that do not start here; they may still come, so it is no more than that."""
    absent = sorted(broker_id for broker_id in settings.broker_static_configs if not 1 <= broker_id <= brokers)
    if not absent:
        return []
    named = ", ".join(map(str, absent[:MAX_SHOWN_NAMES]))
    more = f" and {len(absent) - MAX_SHOWN_NAMES} more" if len(absent) > MAX_SHOWN_NAMES else ""
    return [f"--broker-set names brokers that are not started, which are 1 to {brokers}: {named}{more}"]
