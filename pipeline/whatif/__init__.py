"""What-if analysis: places thousands of cluster shapes with each placement policy, by `klamm.assignment`."""
