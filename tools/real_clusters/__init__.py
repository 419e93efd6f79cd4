"""Klamm beside nodes of Apache Kafka, as brokers of Klamm's controller or as a cluster that `klamm follow` copies.

Each program starts all processes itself, and needs Java, and the first time Maven, which downloads the jars.

Brokers of Apache Kafka that join Klamm:

- `scripts/real-cluster` (`three_brokers`): Klamm with three brokers of 4.3, to be used by hand until Ctrl-C.
- `python -m tools.real_clusters.older_brokers`: brokers of 3.9 to 4.2 join, and are killed and started again.
- `python -m tools.real_clusters.secured_brokers`: a broker of 4.3 joins with SSL and with SASL_SSL.

Clusters of Apache Kafka that `klamm follow` copies, with a comparison of the copy and the controller's own files:

- `python -m tools.real_clusters.follow_cluster`: a cluster of 4.3 with three brokers, under load, for ten minutes.
  Nodes and follower are stopped, killed and started again. At the end a twin answers clients as the cluster does.
- `python -m tools.real_clusters.follow_restarts`: one node of 4.3 and many restarts, also with SASL_SSL.
- `python -m tools.real_clusters.follow_releases`: one node of each release from 3.3 to 4.2, and its twin.

Checks of the same kind that take less time are in `tools/toolchain_checks`, which CI runs. `tools/predictions` compares
what a twin predicts with what the cluster does.
"""
