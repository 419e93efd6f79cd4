"""The columns of every table, key first. A table is written with one `select` of its columns and never otherwise.

Bronze has the contents of the logs, record by record. Silver has states, each from one offset to another. Gold has
results. Times are in UTC and for display only; offsets give the order. `cluster_id` is the first column of all tables.
"""

from typing import Final

from pyspark.sql import types as T  # noqa: N812 - as all of Spark's users call it

INT: Final = T.IntegerType()
LONG: Final = T.LongType()
SHORT: Final = T.ShortType()
DOUBLE: Final = T.DoubleType()
STRING: Final = T.StringType()
BOOLEAN: Final = T.BooleanType()
BINARY: Final = T.BinaryType()
TIME: Final = T.TimestampType()
INTS: Final = T.ArrayType(INT)
STRINGS: Final = T.ArrayType(STRING)


def _columns(**columns: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in columns.items()])


PARTITION_FIELDS: Final = _columns(
    topic_id=STRING,
    partition_index=INT,
    replicas=INTS,
    isr=INTS,
    adding_replicas=INTS,
    removing_replicas=INTS,
    eligible_leader_replicas=INTS,
    last_known_elr=INTS,
    leader=INT,
    leader_epoch=INT,
    partition_epoch=INT,
    leader_recovery_state=SHORT,
)
"""The fields of a PartitionRecord or a PartitionChangeRecord. Null in a change record means unchanged (also for a
leader of -2 in its bytes)."""

METADATA_RECORD: Final = _columns(
    cluster_id=STRING,
    record_offset=LONG,
    snapshot_position=LONG,
    leader_epoch=INT,
    timestamp=TIME,
    batch_offset=LONG,
    file=STRING,
    type=STRING,
    version=SHORT,
    partition=PARTITION_FIELDS,
    body=STRING,
    raw=BINARY,
    problem=STRING,
)
"""bronze.metadata_record: `record_offset` is the offset in the log. A record of a snapshot has the last offset that the
snapshot contains, and its position in the snapshot; other records have no position. `body` is Kafka's JSON form, except
for partition records. If a record could not be decoded, `raw` is its value; `type` is "unknown:ID" for an unknown id or
version (from a newer Kafka, no problem), otherwise `problem` describes the damage."""

ERROR: Final = _columns(
    topic_name=STRING,
    topic_id=STRING,
    partition_index=INT,
    resource_type=STRING,
    resource_name=STRING,
    error_code=SHORT,
    error_message=STRING,
)
REQUEST: Final = _columns(
    cluster_id=STRING,
    seq=LONG,
    timestamp=TIME,
    broker_id=INT,
    listener=STRING,
    listener_name=STRING,
    principal=STRING,
    client_id=STRING,
    client_software_name=STRING,
    client_software_version=STRING,
    api=STRING,
    api_key=SHORT,
    api_version=SHORT,
    correlation_id=INT,
    bytes_in=LONG,
    bytes_out=LONG,
    microseconds=LONG,
    throttle_time_ms=INT,
    log_end_offset=LONG,
    first_record_offset=LONG,
    last_record_offset=LONG,
    errors=T.ArrayType(ERROR),
    file=STRING,
    line=LONG,
    raw=STRING,
    problem=STRING,
)
"""bronze.request: a line of the request log; docs/request-log.md describes the columns. `raw` and `problem` are set if
the line is malformed."""

_VALIDITY: Final = {"valid_from_offset": LONG, "valid_to_offset": LONG, "valid_from": TIME, "valid_to": TIME}
_BATCHES: Final = {"valid_from_batch": LONG, "valid_to_batch": LONG}
"""The first offsets of the batches that contain those two offsets. All records of a batch take effect at once."""

TOPIC: Final = _columns(
    cluster_id=STRING,
    topic_id=STRING,
    name=STRING,
    created_offset=LONG,
    deleted_offset=LONG,
    deleted_batch=LONG,
    created=TIME,
    deleted=TIME,
)
"""silver.topic: a topic from its creation to its deletion (null if it exists)."""

PARTITION_VERSION: Final = _columns(
    cluster_id=STRING,
    topic_id=STRING,
    partition_index=INT,
    **_VALIDITY,
    **_BATCHES,
    topic=STRING,
    replicas=INTS,
    isr=INTS,
    adding_replicas=INTS,
    removing_replicas=INTS,
    eligible_leader_replicas=INTS,
    last_known_elr=INTS,
    leader=INT,
    leader_epoch=INT,
    partition_epoch=INT,
    placeholders=INT,
)
"""silver.partition_version: the state of a partition from one change to the next; `valid_to_offset` is null for the
current state. `placeholders` is the number of negative replicas (KIP-409)."""

BROKER_VERSION: Final = _columns(
    cluster_id=STRING,
    broker_id=INT,
    **_VALIDITY,
    **_BATCHES,
    broker_epoch=LONG,
    incarnation_id=STRING,
    rack=STRING,
    fenced=BOOLEAN,
    in_controlled_shutdown=BOOLEAN,
    registered=BOOLEAN,
)
"""silver.broker_version: `registered` is false from an UnregisterBrokerRecord on."""

CONFIG_VERSION: Final = _columns(
    cluster_id=STRING,
    resource_type=SHORT,
    resource_name=STRING,
    name=STRING,
    **_VALIDITY,
    value=STRING,
)
"""silver.config_version: dynamic configs. A deleted config has no row after its deletion. Resource types: 2 topic,
4 broker (an empty name is the default for all brokers)."""

BROKER_LOAD: Final = _columns(
    cluster_id=STRING,
    broker_id=INT,
    record_offset=LONG,
    timestamp=TIME,
    rack=STRING,
    replica_count=LONG,
    limited_count=LONG,
    leader_count=LONG,
    preferred_leader_count=LONG,
)
"""gold.broker_load: the numbers of replicas and leaders of each broker after each batch that changed them.
`record_offset` is the first of the batch. `limited_count` are the replicas that KIP-578 counts: no internal topics."""

PLACEMENT_QUALITY: Final = _columns(
    cluster_id=STRING,
    record_offset=LONG,
    timestamp=TIME,
    brokers=INT,
    racks=INT,
    partitions=LONG,
    replicas=LONG,
    placeholders=LONG,
    replica_cv=DOUBLE,
    leader_cv=DOUBLE,
    rack_cv=DOUBLE,
    max_over_mean=DOUBLE,
    min_over_mean=DOUBLE,
    rack_violations=LONG,
    preferred_leader_share=DOUBLE,
)
"""gold.placement_quality, at some offsets of each log. `cv` is the standard deviation divided by the mean: of replicas
per broker, of leaders per broker, of replicas per rack. A rack violation is a partition with two replicas in one rack
while another rack has none."""

LIMIT_HEADROOM: Final = _columns(
    cluster_id=STRING,
    record_offset=LONG,
    timestamp=TIME,
    scope=STRING,
    broker_id=INT,
    used=LONG,
    limit=LONG,
    headroom=LONG,
)
"""gold.limit_headroom (KIP-578): the scope is "broker" with its id (max.broker.partitions) or "cluster"
(max.partitions). `limit` is the limit at that offset, null if there is none."""

REFUSED_REQUEST: Final = _columns(
    cluster_id=STRING,
    seq=LONG,
    timestamp=TIME,
    log_end_offset=LONG,
    api=STRING,
    client_id=STRING,
    client_software_name=STRING,
    principal=STRING,
    topic_name=STRING,
    resource_name=STRING,
    error_message=STRING,
)
"""gold.refused_request: requests refused by KIP-578's limits, POLICY_VIOLATION (44) of the APIs that place replicas."""

_WINDOW: Final = {
    "topic_id": STRING,
    "partition_index": INT,
    "topic": STRING,
    "opened_offset": LONG,
    "closed_offset": LONG,
    "opened": TIME,
    "closed": TIME,
}
UNDER_REPLICATION: Final = _columns(
    cluster_id=STRING,
    **_WINDOW,
    cause=STRING,
    duration_ms=LONG,
    wanted=INT,
    min_isr=INT,
    brokers=INTS,
)
"""gold.under_replication: periods in which a partition had fewer in-sync replicas than replicas that are not being
added (KIP-352). `cause` is "placeholder" (KIP-409), "fenced" (a replica's broker is fenced or not registered) or "isr"
(the broker is live, but its replica is behind). `wanted` is the number of replicas, `min_isr` the lowest number in
sync, and `brokers` those that were not in sync."""

REASSIGNMENT: Final = _columns(
    cluster_id=STRING,
    topic_id=STRING,
    partition_index=INT,
    topic=STRING,
    started_offset=LONG,
    ended_offset=LONG,
    started=TIME,
    ended=TIME,
    outcome=STRING,
    from_replicas=INTS,
    to_replicas=INTS,
    steps=INT,
    duration_ms=LONG,
)
"""gold.reassignment: `outcome` is "done", "cancelled", "superseded" (by another one), "deleted" (with its topic) or
"open". A reassignment with nothing to copy begins and ends with the same record. `steps` is the number of changes of
its replicas or ISR, including the first."""

CLOSED_WINDOW: Final = _columns(
    cluster_id=STRING,
    kind=STRING,
    **_WINDOW,
    cause=STRING,
    wanted=INT,
    min_isr=INT,
    brokers=INTS,
    outcome=STRING,
    from_replicas=INTS,
    to_replicas=INTS,
    steps=INT,
)
"""live.closed_window: rows of gold.under_replication and gold.reassignment (see `kind`), written when they close."""

ERROR_TAXONOMY: Final = _columns(
    cluster_id=STRING,
    api=STRING,
    api_version=SHORT,
    client_id=STRING,
    client_software_name=STRING,
    client_software_version=STRING,
    principal=STRING,
    error_code=SHORT,
    error_name=STRING,
    count=LONG,
    first=TIME,
    last=TIME,
    sample_seq=LONG,
    sample_message=STRING,
)
LATENCY: Final = _columns(
    cluster_id=STRING,
    api=STRING,
    api_version=SHORT,
    client_id=STRING,
    client_software_name=STRING,
    principal=STRING,
    requests=LONG,
    p50_us=DOUBLE,
    p90_us=DOUBLE,
    p99_us=DOUBLE,
    p999_us=DOUBLE,
    max_us=LONG,
    slowest_seq=LONG,
)
CLIENT: Final = _columns(
    cluster_id=STRING,
    client_id=STRING,
    client_software_name=STRING,
    client_software_version=STRING,
    principal=STRING,
    requests=LONG,
    apis=LONG,
    errors=LONG,
    refused=LONG,
    throttled=LONG,
    p50_us=DOUBLE,
    p99_us=DOUBLE,
    max_us=LONG,
    first=TIME,
    last=TIME,
    first_seq=LONG,
    slowest_seq=LONG,
)
"""gold.client: what each client asked, by its id, software and principal. `apis` is the number of different APIs,
`errors` that of the errors in its answers, `refused` that of the refusals by KIP-578's limits among them, `throttled`
that of the answers with a throttle time."""

COVERAGE: Final = _columns(
    cluster_id=STRING,
    api=STRING,
    api_key=SHORT,
    api_version=SHORT,
    offered=BOOLEAN,
    seen=LONG,
    clients=INT,
    succeeded=LONG,
    failed=LONG,
    first_seq=LONG,
)
"""gold.coverage: every API and version of the protocol, and all others that were requested. `offered` is true if a
response was not UNSUPPORTED_VERSION; null if there were no requests."""

QUARANTINED_RECORD: Final = _columns(
    cluster_id=STRING,
    record_offset=LONG,
    file=STRING,
    raw=BINARY,
    problem=STRING,
)
QUARANTINED_LINE: Final = _columns(
    file=STRING,
    line=LONG,
    raw=STRING,
    problem=STRING,
)
"""quarantine.metadata_record and .request: the rows of bronze with a problem. Silver and gold do not use them."""

QUARANTINE: Final = {"metadata_record": QUARANTINED_RECORD, "request": QUARANTINED_LINE}
BRONZE: Final = {"metadata_record": METADATA_RECORD, "request": REQUEST}
SILVER: Final = {
    "topic": TOPIC,
    "partition_version": PARTITION_VERSION,
    "broker_version": BROKER_VERSION,
    "config_version": CONFIG_VERSION,
}
GOLD: Final = {
    "broker_load": BROKER_LOAD,
    "placement_quality": PLACEMENT_QUALITY,
    "limit_headroom": LIMIT_HEADROOM,
    "refused_request": REFUSED_REQUEST,
    "under_replication": UNDER_REPLICATION,
    "reassignment": REASSIGNMENT,
    "error_taxonomy": ERROR_TAXONOMY,
    "latency": LATENCY,
    "client": CLIENT,
    "coverage": COVERAGE,
}
LIVE: Final = {"closed_window": CLOSED_WINDOW}
