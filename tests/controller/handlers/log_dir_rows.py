"""The rights for the APIs about log directories."""

from klamm.controller.authorizer import AclOperation
from klamm.protocol.messages.brokers import alter_replica_log_dirs, describe_log_dirs
from tests.controller.handlers.authorization_row import CLUSTER_DENIED, Row, on_cluster

LOG_DIR_ROWS = [
    Row(
        "AlterReplicaLogDirs",
        alter_replica_log_dirs.API,
        lambda name: alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                alter_replica_log_dirs.AlterReplicaLogDir(
                    path="/tmp/kafka-logs",
                    topics=[alter_replica_log_dirs.AlterReplicaLogDirTopic(name=name, partitions=[0])],
                )
            ]
        ),
        [on_cluster(AclOperation.ALTER)],
        CLUSTER_DENIED,
    ),
    Row(
        "DescribeLogDirs",
        describe_log_dirs.API,
        lambda name: describe_log_dirs.DescribeLogDirsRequest(
            topics=[describe_log_dirs.DescribableLogDirTopic(topic=name, partitions=[0])]
        ),
        [on_cluster(AclOperation.DESCRIBE), on_cluster(AclOperation.ALTER)],
        CLUSTER_DENIED,
    ),
]
