"""Apache Kafka's own placements, id for id: AdminUtils' round robin (KIP-36), the KRaft controller's striped one."""
