"""Groups of consumers and other clients, and their offsets: what a group coordinator decides."""
