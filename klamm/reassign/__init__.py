"""`klamm reassign-partitions`: moves partitions of any Kafka cluster, and shows how far they are (KIP-179, KIP-455).

options -> files -> one of the actions -> what it prints. The files and the lines that scripts look for are those of
Apache Kafka's kafka-reassign-partitions; docs/reassign-partitions.md describes all of it.
"""
