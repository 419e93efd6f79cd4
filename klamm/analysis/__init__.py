"""`klamm pipeline`: the command line of the PySpark pipeline, which itself is `klamm.pipeline`."""
