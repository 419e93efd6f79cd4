"""Runs the tests of franz-go's kfake that need nothing but a cluster, each in a process of its own.

    python -m tools.suites.kfake_tests SOURCES [TEST...]

`kfake/cluster.go` replaces the sources of kfake while Go builds its tests. It starts a Klamm for each test
(`KLAMM_SUITES_COMMAND`), or uses the brokers of `KLAMM_SUITES_SERVERS`. A line for each test says how it ended; the
exit code is 1 if one failed.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

NOT_PORTABLE = 97
TEST_SECONDS = 100.0
PACKAGES = ("./kafka_tests", ".")
ENDS = {0: "passed", NOT_PORTABLE: "not portable"}


def main() -> int:
    module, chosen = Path(sys.argv[1]).resolve() / "pkg" / "kfake", set(sys.argv[2:])
    ended: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        overlay = Path(folder) / "overlay.json"
        overlay.write_text(json.dumps({"Replace": dict(_replaced(module))}), encoding="utf-8")
        for package in PACKAGES:
            binary = Path(folder) / (package.strip("./") or "kfake")
            subprocess.run(("go", "test", "-c", "-overlay", overlay, "-o", binary, package), cwd=module, check=True)
            listed = subprocess.run((binary, "-test.list", "."), capture_output=True, text=True, check=True).stdout
            for name in listed.split():
                if name.startswith("Test") and (not chosen or name in chosen):
                    end = _run(binary, name, module)
                    ended[end] += 1
                    print(f"{end:<13} {package} {name}", flush=True)
    print(", ".join(f"{count} {end}" for end, count in sorted(ended.items())))
    return 1 if set(ended) - set(ENDS.values()) else 0


def _replaced(module: Path) -> Iterator[tuple[str, str]]:
    """The sources of kfake and where Go finds them instead; an empty text: nowhere."""
    ours = str(Path(__file__).resolve().parent / "kfake" / "cluster.go")
    for source in module.glob("*.go"):
        if source.name == "cluster.go":
            yield str(source), ours
        elif source.name != "behavior_test.go":  # the others test the inside of kfake
            yield str(source), ""


def _run(binary: Path, name: str, directory: Path) -> str:
    try:
        ran = subprocess.run(
            (binary, "-test.run", f"^{name}$", "-test.v"),
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=TEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "timed out"
    if ran.returncode not in ENDS:
        sys.stderr.write(ran.stdout[-4_000:] + ran.stderr[-2_000:])
    return "skipped" if f"--- SKIP: {name}" in ran.stdout else ENDS.get(ran.returncode, "failed")


if __name__ == "__main__":
    sys.exit(main())
