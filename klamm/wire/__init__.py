"""`klamm wire`: Kafka's bytes as JSON and back, for people, scripts and other codecs' tests."""
