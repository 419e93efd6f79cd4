"""Other projects' test suites on Klamm."""
