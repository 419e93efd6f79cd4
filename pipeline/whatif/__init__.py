"""What would be if: thousands of cluster shapes under each placement policy, with the project's own `assignment`."""
