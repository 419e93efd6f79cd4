"""`klamm reassign-partitions`: moves partitions of any Kafka cluster and shows the progress (KIP-179, KIP-455).

The command decodes its options, reads the JSON files, runs one action, and prints the action's report. File formats,
and the lines that scripts search for, are those of Apache Kafka's kafka-reassign-partitions
(docs/reassign-partitions.md).
"""
