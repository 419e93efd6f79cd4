"""One large request: its memory is counted before it is decoded, and the thread leaves nothing changed behind it."""

import gc
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from klamm.protocol.codec.sizes import DecodedSize
from klamm.protocol.errors import ProtocolError
from klamm.server.large_request import LargeRequest
from klamm.server.pending_answer import Waits
from klamm.server.request_limits import RequestLimits
from klamm.server.thread_turns import SWITCH_SECONDS
from klamm.server.turns import Turns

BYTES = 12_345


class Steps:
    """A request about records, whose steps are noted in order."""

    def __init__(self, decode: Callable[[], None] = lambda: None) -> None:
        self.done: list[Any] = []
        self._decode = decode
        waits = Waits(None, Turns(), None, None, None, int, self.attempt)  # type: ignore[arg-type]  # none of them is needed
        self.request = LargeRequest(
            self.measure,
            self.decode,  # type: ignore[arg-type]
            self.charge,  # type: ignore[arg-type]
            self.attempt,
            RequestLimits(of_metadata=False),
            waits,
            lambda _: False,
        )

    def measure(self) -> DecodedSize:
        self.done.append("measured")
        return DecodedSize(1, BYTES, 0)

    def decode(self) -> object:
        self.done.append("decoded")
        assert not gc.isenabled()
        assert sys.getswitchinterval() <= SWITCH_SECONDS * 1.01
        self._decode()
        return SimpleNamespace(call=SimpleNamespace(request=None))

    def charge(self, arrived: object) -> object:
        self.done.append("charged")
        return arrived

    def attempt(self, *_arguments: object) -> None:
        self.done.append("attempted")

    def hold(self, memory_bytes: int) -> None:
        self.done.append(memory_bytes)


def fail() -> None:
    raise ProtocolError("no such request", offset=0)


async def test_the_memory_is_held_before_the_request_is_decoded() -> None:
    steps = Steps()
    await steps.request.finish(steps.hold)
    assert steps.done == ["measured", BYTES, "decoded", "charged", "attempted"]


async def test_a_request_beyond_the_memory_is_not_decoded() -> None:
    def refuse(_memory_bytes: int) -> None:
        fail()

    steps = Steps()
    with pytest.raises(ProtocolError):
        await steps.request.finish(refuse)
    assert steps.done == ["measured"]


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("decode", [lambda: None, fail])
async def test_collections_and_turns_of_threads_are_as_before(decode: Callable[[], None], enabled: bool) -> None:
    before, was_enabled = sys.getswitchinterval(), gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        steps = Steps(decode)
        if decode is fail:
            with pytest.raises(ProtocolError):
                await steps.request.finish(steps.hold)
        else:
            await steps.request.finish(steps.hold)
        assert gc.isenabled() == enabled
        assert sys.getswitchinterval() == before
    finally:
        (gc.enable if was_enabled else gc.disable)()


async def test_a_client_that_leaves_does_not_wait_for_the_thread() -> None:
    ends, is_decoding = threading.Event(), threading.Event()

    def decode_long() -> None:
        is_decoding.set()
        ends.wait(60)

    steps = Steps(decode_long)
    try:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(steps.request.finish, steps.hold)
                while not is_decoding.is_set():
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
        assert not ends.is_set(), "the thread works on"
    finally:
        ends.set()
    assert "attempted" not in steps.done
