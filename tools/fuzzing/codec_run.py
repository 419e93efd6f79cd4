"""`scripts/fuzz codec`: runs workers one after the other until the time is over, and prints their results."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Final

from tools.fuzzing.codec_cases import case_of_fuzzer
from tools.fuzzing.corpus import keep
from tools.fuzzing.seeds import chosen_cases

GROWN: Final = Path(__file__).resolve().parents[2] / ".cache" / "fuzz" / "codec"
"""Inputs that libFuzzer kept, for the next run; not part of the project."""
SEEDS_PER_SECOND: Final = 40
"""Seeds for each second: the first execution of a seed takes about 5 ms, usually with a schema to be emitted, so they
need only a part of the time."""
GRACE_SECONDS: Final = 120.0
_WORKER: Final = "tools.fuzzing.codec_worker"


def fuzz_codec(seconds: float, seed: int, corpus: Path, *, memory: bool) -> int:
    """Run for the given time, print the findings and the number of inputs. Returns the number of broken promises."""
    started = monotonic()
    found, executions, values, lives = list[Path](), 0, 0, 0
    while (left := seconds - (monotonic() - started)) > 0:
        with tempfile.TemporaryDirectory(prefix="klamm-fuzz-") as name:
            folder = Path(name)
            _prepare(folder, left, seed + lives)
            said = _run(folder, left, seed + lives, memory=memory)
            lives += 1
            progress = json.loads((folder / "progress.json").read_text()) if said is not None else {}
            executions += progress.get("executions", 0)
            values += progress.get("values", 0)
            new = [*_collected(folder / "found", corpus), *_crashes(folder / "artifacts", corpus, said or "")]
            for path in new:
                if path not in found:
                    print(f"found: {path}", flush=True)
                    found.append(path)
            shutil.copytree(folder / "grown", GROWN, dirs_exist_ok=True)
            if not progress.get("executions"):
                print(f"fuzz codec: no worker came to an execution: {said}", file=sys.stderr)
                return 1
    took = monotonic() - started
    print(
        f"fuzz codec: seed {seed}, {executions} executions in {took:.0f} s ({executions / took:.0f}/s), {values}"
        f" of them values; {len(found)} promises broken"
    )
    return len(found)


def _prepare(folder: Path, seconds: float, seed: int) -> None:
    for part in ("seeds", "grown", "artifacts", "found"):
        (folder / part).mkdir()
    for number, case in enumerate(chosen_cases(int(seconds * SEEDS_PER_SECOND), seed)):
        (folder / "seeds" / f"{number}-{case.name}").write_bytes(case.to_fuzzer())
    if GROWN.is_dir() and seconds * SEEDS_PER_SECOND >= len(list(GROWN.iterdir())):
        shutil.copytree(GROWN, folder / "grown", dirs_exist_ok=True)


def _run(folder: Path, seconds: float, seed: int, *, memory: bool) -> str | None:
    """The last report of the worker; None if it did not begin its first execution."""
    with (folder / "said").open("w+") as said:
        worker = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                _WORKER,
                str(folder),
                str(seconds),
                str(seed),
                "memory" if memory else "plain",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        try:
            worker.wait(seconds + GRACE_SECONDS)
        finally:
            worker.kill()
            worker.wait()
        said.seek(0)
        text = said.read()
    for line in text.splitlines():
        if line.startswith("found after"):
            print(line, flush=True)
    return text[-2000:] if (folder / "progress.json").exists() else None


def _collected(folder: Path, corpus: Path) -> list[Path]:
    corpus.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy(path, corpus / path.name)) for path in sorted(folder.iterdir())]


def _crashes(folder: Path, corpus: Path, said: str) -> list[Path]:
    """The inputs that ended a worker: libFuzzer names such files crash-…, timeout-… or oom-…; slow units are only
    reported."""
    paths = []
    for artifact in sorted(folder.iterdir()):
        how = artifact.name.partition("-")[0]
        case = case_of_fuzzer(artifact.read_bytes())
        if how != "slow" and case is not None:
            line = case.to_line(f"the process ended: {how}; {said[-300:]}")
            paths.append(keep(corpus, f"process ended by {how}", f"{case.name} {case.kind}", line))
    return paths
