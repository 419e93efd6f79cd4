"""The APIs of the transaction coordinator."""
