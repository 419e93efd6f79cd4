"""Compares the copy that `klamm follow` has made with the controller's own files."""

from pathlib import Path

from tools.toolchain_checks.report import expect


def compare_copy(theirs: Path, ours: Path) -> str:
    """Compare segment by segment. Raises CheckFailed."""
    names = sorted(path.name for path in ours.glob("*.log"))
    expect(bool(names), "the copy has no segment")
    size = 0
    for name in names:
        copied = (ours / name).read_bytes()
        original = b"".join(path.read_bytes() for path in sorted(theirs.glob("*.log")) if path.name >= name)
        expect(len(copied) > 1_000 and original.startswith(copied), f"{name}: {len(copied)} of {len(original)} bytes")
        size += len(copied)
    return f"{size} bytes in {len(names)} segments are equal"
