"""APIs by which brokers come, stay and go; they live on the controller listener."""
