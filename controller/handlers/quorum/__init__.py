"""APIs of the quorum of the metadata log: its voters, and observers that fetch the log (KIP-595, KIP-630, KIP-853)."""
