"""The throttle time of a connection, in which no request of it is handled (Kafka: muted channels)."""

import trio

from klamm.controller.client import Client


class Mute:
    """Whether a connection is muted; at most one task waits for its end."""

    def __init__(self) -> None:
        self._scope: trio.CancelScope | None = None

    async def last(self, client: Client) -> None:
        """Wait for the throttle time of the client's latest request, or until `end` is called."""
        seconds, client.throttle_time_ms = client.throttle_time_ms / 1000, 0
        with trio.move_on_after(seconds) as self._scope:
            await trio.sleep_forever()
        self._scope = None

    def end(self) -> bool:
        """Let the connection go on at once. Returns whether it was muted."""
        if self._scope is None:
            return False
        self._scope.cancel()
        return True
