"""A simulated cluster put together: in this process (`klamm.Cluster`) or in another (`klamm.ServerProcess`)."""
