"""Long messages are decoded while the garbage collector is paused, and its state is restored afterwards."""

import gc

import pytest

from klamm.protocol import ProtocolError, decode_message, encode_message, encode_request, read_request
from klamm.protocol.codec.messages import LONG_BYTES
from klamm.protocol.messages.topics.create_topics import API, CreatableTopic, CreateTopicsRequest

LONG = CreateTopicsRequest(topics=[CreatableTopic(name=f"orders-{index}") for index in range(2000)])
RAW = encode_message(LONG, 7, True)


def collections() -> int:
    return sum(int(generation["collections"]) for generation in gc.get_stats())


def test_no_garbage_collection_runs_while_decoding() -> None:
    assert len(RAW) > LONG_BYTES
    decode_message(CreateTopicsRequest, 7, True, RAW)
    gc.collect()
    before = collections()
    decoded = decode_message(CreateTopicsRequest, 7, True, RAW)
    assert collections() <= before + 1  # the first allocation behind it may collect
    assert decoded == LONG


def test_no_garbage_collection_runs_while_a_cached_reader_decodes() -> None:
    frame = encode_request(API, 7, 1, "test", LONG)
    read_request(frame)
    gc.collect()
    before = collections()
    body = read_request(frame)[2]
    assert collections() <= before + 1
    assert body == LONG


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("raw", [RAW, RAW[:-1]], ids=["whole", "cut"])
def test_the_garbage_collector_is_restored(raw: bytes, enabled: bool) -> None:
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        try:
            decode_message(CreateTopicsRequest, 7, True, raw)
        except ProtocolError:
            assert raw is not RAW
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()
