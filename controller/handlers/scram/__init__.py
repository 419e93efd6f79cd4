"""The handlers of SCRAM credentials."""
