"""The process in which atheris runs: coverage of `protocol` and of the code that it emits leads the way.

    python -P -m tools.fuzzing.codec_worker FOLDER SECONDS SEED MEMORY

FOLDER holds `seeds/`, `grown/` (what libFuzzer keeps) and `artifacts/`; the findings go to `found/`, and how far it
came to `progress.json`. It ends by itself when its time is over; a crash or a hang that Python cannot catch ends it
before, and leaves its input in `artifacts/`.

Three things count as coverage: the branches of `protocol`; for each message and version the field that was found wrong,
and how; and the branches of the code that was emitted for it. To have those followed costs 10 to 30 ms for each schema,
so it is done for those that have been tried often, as long as it takes no more than a part of the time.
"""

import json
import os
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path
from types import FunctionType
from typing import Final

import atheris
import google_crc32c

with atheris.instrument_imports(include=["klamm.protocol"]):
    from klamm.protocol import RecordType
    from klamm.protocol.codec import messages
    from tools.fuzzing import codec_rules
    from tools.fuzzing.codec_cases import CodecCase, case_of_fuzzer, declaration
from tools.fuzzing.broken import Broken
from tools.fuzzing.corpus import keep, minimised

MAX_INPUT_BYTES: Final = 8192
HANG_SECONDS: Final = 60
MINIMISING_SECONDS: Final = 3.0
PROGRESS_SECONDS: Final = 0.5
HEAD_BYTES: Final = 5
OUTCOMES: Final = 1 << 16
TRIED_OFTEN: Final = 10
MAX_FOLLOWING: Final = 0.25
"""The share of the time that may go into tracing emitted code."""
_NUMBERS: Final = re.compile(r"\d+")
_BATCH_FRONT_BYTES: Final = 21
_LENGTHS: Final = (
    b"\0",
    b"\1",
    b"\x7f",
    b"\x80\1",
    b"\xff" * 2,
    b"\xff" * 4,
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff",
)


class Worker:
    """Tries inputs, stores one input for each broken promise, and knows when its time has ended."""

    def __init__(self, folder: Path, seconds: float, *, memory: bool) -> None:
        self._folder = folder
        self._memory = memory
        self._started = time.monotonic()
        self._deadline = self._started + seconds
        self._next_note = self._started
        self._promises: set[str] = set()
        self._executions = self._values = 0
        self._outcomes = [atheris._reserve_counter() for _ in range(OUTCOMES)]
        self._tried: Counter[tuple[str, int, int]] = Counter()
        self._following_seconds = 0.0

    def try_one(self, data: bytes) -> None:
        """One execution, for libFuzzer."""
        now = time.monotonic()
        if now >= self._next_note:
            self._note(now)
        if now >= self._deadline:
            os._exit(0)  # libFuzzer would check the clock too seldom.
        case = case_of_fuzzer(data)
        if case is None:
            return
        place = (case.kind, case.key, case.version)
        self._tried[place] += 1
        if self._tried[place] == TRIED_OFTEN:
            self._follow(case)
        self._executions += 1
        try:
            outcome = codec_rules.check(case, memory=self._memory)
        except Broken as broken:
            self._keep(case, broken)
        else:
            self._values += outcome is None
            # Indexes of arrays and numbers of bytes do not make a different finding.
            reported = (place, outcome and _NUMBERS.sub("", f"{outcome.path} {outcome.reason}"))
            atheris._trace_branch(self._outcomes[hash(reported) % OUTCOMES])

    def _keep(self, case: CodecCase, broken: Broken) -> None:
        if broken.promise in self._promises:
            return
        self._promises.add(broken.promise)

        def still(data: bytes) -> bool:
            try:
                codec_rules.check(case.with_data(data), memory=self._memory)
            except Broken as again:
                return again.promise == broken.promise
            return False

        smallest = case.with_data(minimised(case.data, still, MINIMISING_SECONDS))
        after = f"{time.monotonic() - self._started:.0f} s, {time.process_time():.0f} s of CPU time"
        keep(self._folder / "found", broken.promise, f"{case.name} {case.kind}", smallest.to_line(str(broken)[:500]))
        print(f"found after {after}: {broken.promise} ({case.name})", file=sys.stderr, flush=True)

    def _note(self, now: float) -> None:
        self._next_note = now + PROGRESS_SECONDS
        reported = {"executions": self._executions, "values": self._values, "seconds": now - self._started}
        new = self._folder / "progress.json.new"
        new.write_text(json.dumps(reported))
        new.replace(self._folder / "progress.json")

    def _follow(self, case: CodecCase) -> None:
        """Trace the code that is emitted for this case, because atheris only traces imported modules."""
        declared = declaration(case.kind, case.key)
        started = time.monotonic()
        if declared is None or self._following_seconds > MAX_FOLLOWING * (started - self._started):
            return
        message_class = declared.message if isinstance(declared, RecordType) else getattr(declared, case.kind)
        parse = messages.parse_function(message_class, case.version, declared.flexible(case.version), "strict")
        for emitted in list(parse.__globals__.values()):
            is_emitted = isinstance(emitted, FunctionType) and emitted.__globals__ is parse.__globals__
            if is_emitted and emitted.__name__.startswith("parse"):
                emitted.__code__ = atheris.patch_code(emitted.__code__, False)
        self._following_seconds += time.monotonic() - started


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """libFuzzer's own mutations of what follows the five bytes of the prefix; often a wrong length; and sometimes
    another version of the same message."""
    chance = random.Random(seed)
    case = case_of_fuzzer(data)
    if case is None:
        return data
    payload = case.data
    if chance.random() < 0.1 and payload:
        at, length = chance.randrange(len(payload)), chance.choice(_LENGTHS)
        payload = payload[:at] + length + payload[at + chance.choice((0, 1, len(length))) :]
    else:
        payload = atheris.Mutate(payload, max(1, max_size - HEAD_BYTES))
    declared = declaration(case.kind, case.key)
    version = case.version
    if declared is not None and chance.random() < 0.05:
        version = chance.choice(declared.versions)
    if chance.random() < 0.9:
        payload = _repaired(case.kind, case.key, version, payload)
    mutated: bytes = CodecCase(case.kind, case.key, version, payload).to_fuzzer()[:max_size]
    return mutated


def _repaired(kind: str, key: int, version: int, payload: bytes) -> bytes:
    """Correct what would make nearly every mutation fail: a request's key and version, a batch's length and
    checksum."""
    if kind == "request":
        return key.to_bytes(2, "big") + version.to_bytes(2, "big") + payload[4:]
    if kind == "batch" and len(payload) > _BATCH_FRONT_BYTES:
        length = (len(payload) - 12).to_bytes(4, "big")
        checksum: bytes = google_crc32c.value(payload[_BATCH_FRONT_BYTES:]).to_bytes(4, "big")
        return payload[:8] + length + payload[12:16] + b"\2" + checksum + payload[_BATCH_FRONT_BYTES:]
    return payload


def main() -> None:
    folder, seconds, seed, memory = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "memory"
    worker = Worker(folder, seconds, memory=memory)
    arguments = [
        sys.argv[0],
        f"-seed={seed % 2**31 + 1}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-timeout={HANG_SECONDS}",
        f"-max_total_time={int(seconds) + 1}",
        f"-artifact_prefix={folder / 'artifacts'}/",
        str(folder / "grown"),
        str(folder / "seeds"),
    ]
    atheris.Setup(arguments, worker.try_one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
