"""`klamm scenario`: runs scenarios on a cluster with a control interface."""
