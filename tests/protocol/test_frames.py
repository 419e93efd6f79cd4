"""Frames are the same for any chunks of bytes, and an impossible size is an error at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol import FrameBuffer, ProtocolError, encode_frame


def drain(buffer: FrameBuffer) -> list[bytes]:
    frames = []
    while (frame := buffer.next_frame()) is not None:
        frames.append(frame)
    return frames


@given(frames=st.lists(st.binary(max_size=20), max_size=5), data=st.data())
def test_any_chunking_gives_the_same_frames(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(encode_frame, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    buffer, received = FrameBuffer(20), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        buffer.feed(stream[start:end])
        received += drain(buffer)
    assert received == frames
    assert buffer.buffered_bytes == 0


def test_frames_cut_anywhere_are_the_same() -> None:
    stream = encode_frame(b"some payload") + encode_frame(b"") + encode_frame(b"x")
    for cut in range(len(stream) + 1):
        buffer = FrameBuffer(12)
        buffer.feed(stream[:cut])
        received = drain(buffer)
        buffer.feed(stream[cut:])
        assert received + drain(buffer) == [b"some payload", b"", b"x"]
    buffer, received = FrameBuffer(12), []
    for byte in stream:
        buffer.feed(bytes((byte,)))
        received += drain(buffer)
    assert received == [b"some payload", b"", b"x"]


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_impossible_sizes_are_refused_before_the_frame_arrives(size: int) -> None:
    buffer = FrameBuffer(100)
    buffer.feed(encode_frame(b"good") + size.to_bytes(4, "big", signed=True))
    assert buffer.next_frame() == b"good"
    with pytest.raises(ProtocolError, match=f"frame of {size} bytes"):
        buffer.next_frame()


def test_the_largest_frame_is_accepted() -> None:
    buffer = FrameBuffer(100)
    buffer.feed(encode_frame(bytes(100)))
    assert buffer.next_frame() == bytes(100)


def test_buffered_bytes_are_those_not_yet_returned() -> None:
    buffer = FrameBuffer(100)
    buffer.feed(encode_frame(b"12345") + b"\0\0\0\x09abc")
    assert buffer.buffered_bytes == 16
    assert buffer.next_frame() == b"12345"
    assert buffer.next_frame() is None
    assert buffer.buffered_bytes == 7
