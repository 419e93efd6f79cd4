"""`klamm wire`: converts Kafka's bytes to JSON and back, for users, scripts and tests of other codecs."""
