"""Connections that a fault rule keeps open and silent."""

import trio

from klamm.server.faults.counting import RuleState


async def stay_silent(stream: trio.abc.Stream, scope: trio.CancelScope, rule: RuleState, receive_bytes: int) -> None:
    """Read and answer nothing until the client closes the connection, the rule is removed or `scope` is cancelled."""
    rule.at_removal.add(scope.cancel)
    try:
        with scope:
            while not rule.is_removed and await stream.receive_some(receive_bytes):
                pass
    finally:
        rule.at_removal.discard(scope.cancel)
