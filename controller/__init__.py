"""The state machine of a Kafka controller: image, handlers and log; `klamm.server` is the network around it."""
