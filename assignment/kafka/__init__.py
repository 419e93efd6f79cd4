"""What Apache Kafka itself places, id for id: AdminUtils' round robin (KIP-36) and the KRaft controller's stripes."""
