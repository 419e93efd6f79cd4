"""The columns of a what-if's tables, key first. No table of a cluster that there is has anything to do with them."""

from typing import Final

from pyspark.sql import types as T  # noqa: N812 - as all of Spark's users call it

from klamm.pipeline.schemas import BOOLEAN, DOUBLE, INT, LONG, STRING

RESULT: Final = T.StructType(
    [
        T.StructField("shape_id", LONG),
        T.StructField("policy", STRING),
        T.StructField("seed", LONG),
        T.StructField("brokers", INT),
        T.StructField("racks", INT),
        T.StructField("partitions", INT),
        T.StructField("replication_factor", INT),
        T.StructField("limit", INT),
        T.StructField("fenced", INT),
        T.StructField("held", INT),
        T.StructField("placed", BOOLEAN),
        T.StructField("reason", STRING),
        T.StructField("replica_spread", INT),
        T.StructField("leader_spread", INT),
        T.StructField("rack_violations", LONG),
        T.StructField("placeholders", LONG),
        T.StructField("over_limit", INT),
        T.StructField("moves", LONG),
        T.StructField("headroom", DOUBLE),
        T.StructField("digest", STRING),
    ]
)
"""whatif.result: what one policy made of one cluster shape. `replica_spread` is the most replicas on a live broker less
the fewest, other topics' included; `over_limit` counts brokers beyond their limit that have replicas of this topic;
`headroom` is the share of the unfenced brokers' room that is left with all replicas placed (the same for every policy,
below 0 if more is wanted than there is); `digest` names the placement itself."""

SUMMARY: Final = T.StructType(
    [
        T.StructField("headroom_from", DOUBLE),
        T.StructField("headroom_to", DOUBLE),
        T.StructField("policy", STRING),
        T.StructField("shapes", LONG),
        T.StructField("placed", DOUBLE),
        T.StructField("within_limit", DOUBLE),
        T.StructField("racks_kept", DOUBLE),
        T.StructField("complete", DOUBLE),
        T.StructField("replica_spread", DOUBLE),
        T.StructField("leader_spread", DOUBLE),
        T.StructField("moves", DOUBLE),
    ]
)
"""whatif.summary: shapes whose headroom is from `headroom_from` to below `headroom_to` (null: no bound; both null: no
limit). `placed` is the share of them that the policy placed; the others are shares and means of those: no broker beyond
its limit, every row on as many racks as can be, no placeholder left."""
