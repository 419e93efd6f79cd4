"""APIs about the voters of the quorum."""
