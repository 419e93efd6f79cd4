"""`klamm serve`: a cluster in the foreground."""
