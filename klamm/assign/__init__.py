"""`klamm assign`: places replicas without a cluster; each line of input is a JSON object with a request."""
