"""The handlers of delegation tokens. Brokers check who asks, the controller decides (Kafka: KafkaApis and
DelegationTokenControlManager)."""
