"""Compression: what is packed is unpacked again, damaged bytes are noticed, and nothing takes more than it may."""

import gzip
import subprocess
import sys
from contextlib import suppress
from random import Random

import cramjam
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.broker.data.codecs import CODEC_NAMES, GZIP, LZ4, SNAPPY, ZSTD, DamagedPayload, PayloadTooLarge, pack, unpack
from tests.broker.data.recordings import recorded

PACKED = (GZIP, SNAPPY, LZ4, ZSTD)
MIB = 1 << 20
ABOVE_A_BLOCK = 70_000
"""More than a block of lz4 or of snappy's frame has."""


def many_words() -> bytes:
    rng = Random(1)
    words = [bytes(rng.choices(b"abcdefgh", k=rng.randrange(2, 9))) for _ in range(300)]
    return b" ".join(rng.choices(words, k=30_000))


@pytest.mark.parametrize("codec", range(5))
@given(st.binary(max_size=300), st.sampled_from([0, 1, ABOVE_A_BLOCK, 150_000]))
@example(b"", 0)
def test_what_is_packed_is_unpacked(codec: int, seed: bytes, size: int) -> None:
    data = (seed * (size // max(len(seed), 1) + 1))[: max(size, len(seed))]
    packed = pack(codec, data)
    assert unpack(codec, packed, len(data)) == data
    if data and codec:
        with pytest.raises(PayloadTooLarge):
            unpack(codec, packed, len(data) - 1)


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("most_bytes", [0, 1, 65_535, 65_536, 65_537, ABOVE_A_BLOCK - 1])
def test_more_bytes_than_asked_for_are_too_large(codec: int, most_bytes: int) -> None:
    with pytest.raises(PayloadTooLarge):
        unpack(codec, pack(codec, bytes(ABOVE_A_BLOCK)), most_bytes)


@pytest.mark.parametrize("codec", PACKED)
@given(st.data())
def test_any_damage_is_noticed_or_without_effect(codec: int, data: st.DataObject) -> None:
    """No other exception is raised, and never are there more bytes than asked for."""
    packed = bytearray(pack(codec, data.draw(st.binary(max_size=200))))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(packed[: data.draw(st.integers(0, len(packed)))])
    with suppress(DamagedPayload, PayloadTooLarge):
        assert len(unpack(codec, cut, 500)) <= 500


@pytest.mark.parametrize("codec", PACKED)
@given(st.binary(max_size=60))
def test_any_bytes_are_unpacked_or_damaged(codec: int, data: bytes) -> None:
    with suppress(DamagedPayload, PayloadTooLarge):
        unpack(codec, data, 1000)


@pytest.mark.parametrize("row", recorded("clients.jsonl"), ids=lambda row: f"{row['client']} {row['codec']}")
def test_payloads_of_clients_are_unpacked(row: dict[str, str]) -> None:
    payload = bytes.fromhex(row["records"])[61:]
    assert len(unpack(CODEC_NAMES.index(row["codec"]), payload, MIB)) > 0


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(GZIP, 1, 9), (LZ4, 3, 12), (ZSTD, -5, 19)], ids=["gzip", "lz4", "zstd"]
)
def test_a_higher_level_packs_more(codec: int, low: int, high: int) -> None:
    data = many_words()
    larger, smaller = pack(codec, data, low), pack(codec, data, high)
    assert len(smaller) < len(larger)
    assert unpack(codec, smaller, MIB) == unpack(codec, larger, MIB) == data


def test_the_default_levels_are_kafkas() -> None:
    """Level 9 of lz4 is Kafka's fast compressor."""
    data = many_words()
    assert pack(ZSTD, data) == pack(ZSTD, data, 3)
    assert pack(GZIP, data) == pack(GZIP, data, -1) == pack(GZIP, data, 6)
    assert pack(LZ4, data) == pack(LZ4, data, 9)
    for level in (1, 8, 10, 17):
        packed = pack(LZ4, data, level)
        assert packed != pack(LZ4, data)
        assert packed[:7] == pack(LZ4, data)[:7], "the same frame"


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_takes_no_more_memory_than_was_asked_for(codec: int) -> None:
    """A gigabyte of zeros, of which 4 MiB are wanted: in a process of its own, whose peak is measured."""
    member = gzip.compress(bytes(256 * MIB), 1)
    bombs = {GZIP: member * 4, ZSTD: pack(ZSTD, bytes(256 * MIB)) * 4}
    bomb = bombs.get(codec) or pack(codec, bytes(64 * MIB))
    program = (
        "import resource, sys\n"
        "from klamm.broker.data.codecs import PayloadTooLarge, pack, unpack\n"
        f"data = sys.stdin.buffer.read()\nunpack({codec}, pack({codec}, b'warm'), 10)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"try:\n    unpack({codec}, data, {4 * MIB})\n"
        "except PayloadTooLarge:\n    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=bomb, capture_output=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit <= 14 * MIB


def test_a_block_of_lz4_is_no_larger_than_its_frame_says() -> None:
    header, end = pack(LZ4, b"")[:7], bytes(4)
    for size in (65_536, 65_537):
        frame = header + (size | 1 << 31).to_bytes(4, "little") + bytes(size) + end
        if size == 65_536:
            assert unpack(LZ4, frame, MIB) == bytes(size)
        else:
            with pytest.raises(DamagedPayload):
                unpack(LZ4, frame, MIB)


def test_checksums_of_lz4_blocks_are_compared() -> None:
    data = many_words()
    packing = cramjam.lz4.Compressor(level=3, block_linked=False, content_checksum=False)
    packing.compress(data)
    frame = bytearray(bytes(packing.finish()))
    assert frame[4] & 0x10, "its blocks have checksums"
    assert unpack(LZ4, bytes(frame), len(data)) == data
    frame[-5] ^= 1
    with pytest.raises(DamagedPayload):
        unpack(LZ4, bytes(frame), len(data))


def test_an_lz4_block_that_begins_like_a_length_is_uncompressed() -> None:
    """Its first four bytes are a number below the size of blocks, 4 MiB here, as Sarama's frames have them."""
    frame = bytes.fromhex(
        "04224d186470b91f00000016000100f00a18aac1ce590100000001a2185414a3000000016b000000013000000000d20324f2"
    )
    message = bytes.fromhex("000000000000000000000018aac1ce590100000001a2185414a3000000016b0000000130")
    assert unpack(LZ4, frame, 1 << 20) == message
