"""The options of a cluster as arguments of `klamm.Cluster` and `klamm.ServerProcess`, for type checkers."""

import os
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict


class ClusterArguments(TypedDict, total=False):
    """The options as Python arguments; None means the default where it is allowed. `klamm.Cluster` describes them."""

    listen: str | None
    listeners: Sequence[str]
    advertise: str | None
    controller_listener: str | None
    brokers: int
    broker_ids: Sequence[int]
    racks: Sequence[str]
    config: str | os.PathLike[str] | None
    configs: Mapping[str, str | float] | None
    broker_configs: Mapping[int, Mapping[str, str | float]] | None
    profile: Literal["kip", "kafka"]
    kafka_version: str | None
    max_version: str | None
    metadata_version: str | None
    kip_578_versions: bool
    client_telemetry: bool
    log_dirs: int | None
    real_topics: str
    dynamic_quorum: bool
    replication_rate: int
    data_memory_bytes: int
    data_file_bytes: int
    seed: int | None
    cluster_id: str | None
    data_dir: str | os.PathLike[str] | None
    twin: str | os.PathLike[str] | None
    snapshot_records: int
    keep_history: bool
    request_log: str | os.PathLike[str] | None
    request_topic: str | None
    start_ms: int | None
    faults: str | os.PathLike[str] | None
    journal_bodies: bool
    clock: Literal["real", "manual"]
    security: Literal["ssl", "sasl_plaintext", "sasl_ssl"] | None
    users: Mapping[str, str]
    add_scram: Sequence[str]
