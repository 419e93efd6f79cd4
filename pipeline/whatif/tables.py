"""The columns of the tables of a what-if analysis, key first. They are independent of the tables of real clusters."""

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
"""whatif.result: the result of one policy for one cluster shape. `replica_spread` is the largest minus the smallest
number of replicas on a live broker, including other topics. `over_limit` is the number of brokers above their limit
with replicas of this topic. `headroom` is the share of the unfenced brokers' room that is left after all replicas are
placed (the same for every policy, negative if there is too little room). `digest` is a hash of the placement."""

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
"""whatif.summary: shapes with a headroom from `headroom_from` to below `headroom_to` (null for no bound; both null for
no limit). `placed` is the share of shapes that the policy placed. The other columns are shares and means of the placed
ones: no broker above its limit, as many racks per row as possible, no placeholder left."""
