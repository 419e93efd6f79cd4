"""Building and running a simulated cluster: in this process (`klamm.Cluster`) or in another (`klamm.ServerProcess`)."""
