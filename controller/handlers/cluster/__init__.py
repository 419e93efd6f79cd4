"""APIs about the cluster as a whole."""
