"""The columns of every table, key first. A table is written with one `select` of its columns and never otherwise.

Bronze is what the logs hold, record by record. Silver is what was true from which offset to which. Gold answers
questions. Times are labels, in UTC: what came before what is told by offsets alone. `cluster_id` stands first in all.
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
"""Of a PartitionRecord and a PartitionChangeRecord. Null in a change: as it was; so is a leader of -2 in its bytes."""

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
"""bronze.metadata_record: `record_offset` is that of the log. A record of a snapshot has the last offset that the
snapshot holds, and its position in it; the others have no position. `body` is Kafka's JSON form, of types other than
partitions'. `raw` is the record's value where it could not be decoded, and then `type` is "unknown:ID" for an id or a
version that is not known (no problem: a newer Kafka's), or `problem` says what is wrong with the bytes."""

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
"""bronze.request: a line of the request log, whose own description tells the columns. `raw` and `problem` are set where
the line is none."""

_VALIDITY: Final = {"valid_from_offset": LONG, "valid_to_offset": LONG, "valid_from": TIME, "valid_to": TIME}
_BATCHES: Final = {"valid_from_batch": LONG, "valid_to_batch": LONG}
"""The first offsets of the batches that those two offsets stand in: what one request did, it did at once."""

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
"""silver.topic: a topic from its creation to its deletion (null: it is there)."""

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
"""silver.partition_version: what a partition was from one change to the next; `valid_to_offset` null: what it is.
`placeholders` is how many of its replicas are negative (KIP-409)."""

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
"""silver.config_version: dynamic configs; a deleted one has no row from then on. Resource types: 2 topic, 4 broker (an
empty name: the default of all)."""

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
"""gold.broker_load: how many replicas and leaders each broker had after each batch that changed that.
`record_offset` is the batch's first; `limited_count` the replicas that KIP-578 counts, without internal topics'."""

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
"""gold.placement_quality: at some offsets of each log. `cv` is the standard deviation over the mean, of replicas by
broker, of leaders by broker, of replicas by rack. A rack violation is a partition with two replicas in one rack while
another rack has none."""

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
"""gold.limit_headroom (KIP-578): scope "broker" with its id (max.broker.partitions), or "cluster" (max.partitions);
`limit` is the one in force at that offset, null if there is none."""

REFUSED_REQUEST: Final = _columns(
    cluster_id=STRING,
    seq=LONG,
    timestamp=TIME,
    log_end_offset=LONG,
    api=STRING,
    client_software_name=STRING,
    topic_name=STRING,
    resource_name=STRING,
    error_message=STRING,
)
"""gold.refused_request: what KIP-578's limits refused, POLICY_VIOLATION (44) of the APIs that place replicas."""

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
"""gold.under_replication: from when to when a partition had fewer in-sync replicas, in KIP-352's meaning,
than replicas that are not being added. `cause`: "placeholder" (KIP-409), "fenced" (a replica's broker is fenced
or gone), "isr" (it lives and is behind); `wanted` replicas, at worst `min_isr` in sync; `brokers` that were missing."""

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
"""gold.reassignment: `outcome` "done", "cancelled", "superseded" by another one, "deleted" with its topic, "open".
One that has nothing to copy begins and ends with the same record. `steps` are the changes of its replicas or its ISR,
the first one included."""

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
"""live.closed_window: rows of gold.under_replication and gold.reassignment (`kind` says which), once they close."""

ERROR_TAXONOMY: Final = _columns(
    cluster_id=STRING,
    api=STRING,
    api_version=SHORT,
    client_software_name=STRING,
    client_software_version=STRING,
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
    client_software_name=STRING,
    requests=LONG,
    p50_us=DOUBLE,
    p90_us=DOUBLE,
    p99_us=DOUBLE,
    p999_us=DOUBLE,
    max_us=LONG,
    slowest_seq=LONG,
)
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
"""gold.coverage: every API and version that the protocol has, and what else was asked. `offered`: whether its requests
were answered otherwise than with UNSUPPORTED_VERSION; null if there were none."""

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
"""quarantine.metadata_record and .request: the rows of bronze with a problem. Silver and gold are made without them."""

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
    "coverage": COVERAGE,
}
LIVE: Final = {"closed_window": CLOSED_WINDOW}
