"""The transaction coordinator: a pure state machine for each partition of `__transaction_state`."""
