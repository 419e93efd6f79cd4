"""Pure decisions about the cluster's state: what changes, given the image. Handlers turn them into answers."""
