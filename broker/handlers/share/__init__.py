"""Share groups (KIP-932): their members, their offsets, the share coordinator's own APIs, and reading records."""
