"""`klamm assign`: places replicas without a cluster, a JSON object a line."""
