"""The state machine of a Kafka controller: image, handlers and log; around it, in `controller.server`, the network."""
