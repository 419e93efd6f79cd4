"""The error of a start that lacks the public keys of tokens.

A module of its own: every start names the error, and one without OAuth imports nothing else of SASL.
"""


class KeysUnavailable(Exception):
    """The keys cannot be fetched at the start. The text is one line that names the listener and the setting."""
