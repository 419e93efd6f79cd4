"""Kafka's 16-byte ids. Topic, incarnation and directory ids are compared, hashed and sorted as bytes."""

import base64


class Uuid(bytes):
    """A 16-byte id, printed as Kafka prints it: url-safe base64 without padding."""

    __slots__ = ()

    @classmethod
    def from_text(cls, text: str) -> "Uuid":
        """The id that Kafka prints as `text`; raises ValueError if that is not 16 bytes of base64."""
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        if len(raw) != 16:
            raise ValueError(f"{text!r} holds {len(raw)} bytes, not 16")
        return cls(raw)

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self).rstrip(b"=").decode()

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"


ZERO_UUID = Uuid(16)
METADATA_TOPIC_ID = Uuid(15 * b"\0" + b"\1")
"""The topic id of the metadata log itself, `__cluster_metadata`."""
