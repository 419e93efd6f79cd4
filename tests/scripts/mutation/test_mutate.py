"""`scripts/mutate`: which faults it makes, how it plants them, and that it tells seen faults from survivors."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tools.mutation.code_swap import code_swaps, swap_code
from tools.mutation.faults import Fault, StaleFault, read_faults
from tools.mutation.generated import generate_faults
from tools.mutation.rooms import HOMES, home_of
from tools.mutation.verdict import Verdict, summary, survivors

ROOT = Path(__file__).resolve().parents[3]
PLANTED = sorted((ROOT / "tools" / "mutation").glob("planted*.toml"))
ROOMS = ("assignment", "broker", "controller", "pipeline", "protocol", "server")
EVERY_MODULE, EVERY = 7, 11
"""Primes: one module of so many has its faults made, and one fault of so many is compiled."""
SOUND = '''\
"""A module."""
LIMIT = 10
def bounded(value: int, extra: int = 1) -> int:
    """Add."""
    def inner(amount: int) -> int:
        return amount + extra
    return min(inner(value), LIMIT)
class Holder:
    def take(self, value: int) -> int:
        self.value = value
        return value
'''


def made(tmp_path: Path, source: str) -> list[str]:
    (tmp_path / "module.py").write_text(source)
    return [fault.name for fault in generate_faults(tmp_path / "module.py", tmp_path)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", ["a < b  =>  a <= b"]),
        ("a in b", ["a in b  =>  a not in b"]),
        ("0 <= a < b", ["=>  0 < a < b", "=>  0 <= a <= b", "=>  0 <= a", "=>  a < b"]),
        ("a and b", ["a and b  =>  b", "a and b  =>  a"]),
        ("not a", ["not a  =>  a"]),
        ("mask & other", ["=>  mask", "=>  other"]),
        ("a + 1", ["a + 1  =>  a - 1", "a + 1  =>  a"]),
        ("a * 60", ["a * 60  =>  a // 60", "a * 60  =>  a", "60  =>  61"]),
        ("x = max(a, b)", ["=>  a", "=>  b", "=>  min(a, b)"]),
        ("x = max(*a, b)", ["=>  b", "=>  min(*a, b)"]),
        ("x = [a for a in b if c]", ["=>  [a for a in b]"]),
        ("x = a[1:b]", ["=>  a[:b]", "=>  a[1:]"]),
        ("x = f(a, b=c)", ["f(a, b=c)  =>  f(a)"]),
        ("x = zip(a, b, strict=True)", []),
        ("x = zeros(a, dtype=b.c + 2)", []),
        ("x = {'a': 1, **b}", ["=>  {**b}", "=>  {'a': 1}"]),
        ("x = a if b else c", ["=>  a", "=>  c"]),
        ("if a:\n    b()", ["if a: b()  =>  pass", "b()  =>  pass"]),
        ("a.b = c", ["a.b = c  =>  pass"]),
        ("x += 1", ["x += 1  =>  pass"]),
        ("await_me(a)", ["await_me(a)  =>  pass"]),
        ("x = True", ["True  =>  False"]),
        ("x = a", []),
        ("'a docstring'", []),
        ("x: Literal[7] = a", []),
        ("raise Error(a + 2)", []),
        ("if TYPE_CHECKING:\n    b()", []),
    ],
)
def test_a_rule_makes_the_faults_that_reviews_missed(tmp_path: Path, source: str, expected: list[str]) -> None:
    names = made(tmp_path, source)
    assert len(names) == len(expected), names
    assert all(name.endswith(part) for name, part in zip(names, expected, strict=True)), names


def test_an_expression_that_is_put_in_keeps_its_meaning(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("x = c * (a + b)\n")
    texts = {fault.text for fault in generate_faults(tmp_path / "module.py", tmp_path)}
    assert "x = c * ((a - b))\n" in texts


def test_generated_faults_are_modules_that_differ() -> None:
    modules = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")) if "messages" not in path.parts]
    faults = [fault for path in modules[::EVERY_MODULE] for fault in generate_faults(path)]
    assert len(faults) > 1_000
    for fault in faults[::EVERY]:
        compile(fault.text, fault.file, "exec")
        assert fault.text != (ROOT / fault.file).read_text(encoding="utf-8")
        assert fault.line <= fault.last_line


def test_every_hand_written_fault_fits_the_source() -> None:
    """A fault that does not is to be written anew for the code as it is now, or to go."""
    faults = [fault for path in PLANTED for fault in read_faults(path)]
    assert len(faults) >= 120
    assert len({fault.name for fault in faults}) == len(faults)
    for fault in faults:
        compile(fault.text, fault.file, "exec")


@pytest.mark.parametrize(("old", "times"), [("value = 2", 0), ("1", 2)])
def test_a_fault_that_does_not_fit_is_stale(tmp_path: Path, old: str, times: int) -> None:
    (tmp_path / "module.py").write_text("a = 1\nb = 1\n")
    faults = tmp_path / "faults.toml"
    faults.write_text(f'[[fault]]\nname = "n"\nfile = "module.py"\nold = "{old}"\nnew = ""\n')
    with pytest.raises(StaleFault, match=f"{times} times in module.py"):
        read_faults(faults, tmp_path)


def test_every_module_of_the_rooms_has_tests_at_home() -> None:
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for pattern in home_of(path.relative_to(ROOT).as_posix()):
            assert list(ROOT.glob(pattern)), (path, pattern)
    assert home_of("broker/data/records.py") == HOMES["broker/data"]
    with pytest.raises(LookupError, match=r"klamm/serve/command\.py"):
        home_of("klamm/serve/command.py")


def imported(path: Path) -> ModuleType:
    path.write_text(SOUND)
    spec = importlib.util.spec_from_file_location("sound_module", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [("min(", "max(", 10), ("amount + extra", "amount - extra", 1), ("LIMIT)", "LIMIT - 9)", 1)],
)
def test_functions_of_an_imported_module_become_faulty(tmp_path: Path, old: str, new: str, value: int) -> None:
    path = tmp_path / "sound.py"
    module = imported(path)
    assert module.bounded(2) == 3
    swaps = code_swaps(str(path), SOUND, SOUND.replace(old, new))
    assert swaps is not None
    assert swap_code(str(path), swaps)
    assert module.bounded(2) == value


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 10", "LIMIT = 11"),
        ("extra: int = 1", "extra: int = 2"),
        ("def inner(amount: int)", "def other(amount: int)"),
    ],
)
def test_what_runs_while_a_module_is_made_needs_a_process_of_its_own(tmp_path: Path, old: str, new: str) -> None:
    assert code_swaps(str(tmp_path / "sound.py"), SOUND, SOUND.replace(old, new)) is None


def test_a_function_that_nobody_holds_is_told(tmp_path: Path) -> None:
    path = tmp_path / "never_imported.py"
    swaps = code_swaps(str(path), SOUND, SOUND.replace("= value\n", "= 0\n"))
    assert swaps is not None
    assert not swap_code(str(path), swaps)


def test_shares_leave_out_what_no_test_can_see() -> None:
    def verdict(seen_by: str, equivalent: str = "") -> Verdict:
        fault = Fault(name="n", file="a.py", line=1, last_line=1, text="", equivalent=equivalent)
        return Verdict(fault, seen_by, 1)

    verdicts = [verdict("t"), verdict("t"), verdict("t"), verdict(""), verdict("", "it is dead code")]
    assert len(survivors(verdicts)) == 1
    assert summary(verdicts)[-1] == "4 faults: 3 seen (75.0 %), 1 survived; 1 equivalent ones beside"


FAULTS = """
[[fault]]
name = "seen in a fork"
file = "assignment/kafka/java_random.py"
old = "bits % bound"
new = "bits % (bound + 1)"

[[fault]]
name = "seen in a process of its own"
file = "assignment/kafka/java_random.py"
old = "_INCREMENT: Final = 0xB"
new = "_INCREMENT: Final = 0xC"

[[fault]]
name = "never ends"
file = "assignment/kafka/java_random.py"
old = "< 1 << 31:\\n                return value"
new = "< 0:\\n                return value"

[[fault]]
name = "a survivor"
file = "assignment/kafka/java_random.py"
old = "to {(1 << 31) - 1}, not"
new = "to {1 << 31}, not"
"""


def test_faults_are_tried_with_the_tests_that_run_them(tmp_path: Path) -> None:
    """In a fork, in a process of its own, in a loop without end; the tree stays as it is."""
    (tmp_path / "faults.toml").write_text(FAULTS)
    before = (ROOT / "assignment/kafka/java_random.py").read_bytes()
    report = tmp_path / "report.jsonl"
    command = [sys.executable, "-P", "-m", "tools.mutation", "--faults", str(tmp_path / "faults.toml")]
    command += ["--tests", "tests/assignment/test_java_random.py", "--report", str(report), "--spare-seconds", "2"]
    done = subprocess.run(
        command, cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    seen = {line["name"]: line["seen_by"] for line in map(json.loads, report.read_text().splitlines())}
    assert seen["seen in a fork"].startswith("tests/assignment/test_java_random.py::test_")
    assert seen["seen in a process of its own"].startswith("tests/assignment/test_java_random.py::test_")
    assert seen["never ends"] == "(the tests do not end)"
    assert seen["a survivor"] == ""
    assert "survived: assignment/kafka/java_random.py:26: a survivor" in done.stdout
    assert done.stdout.splitlines()[-1] == "4 faults: 3 seen (75.0 %), 1 survived; 0 equivalent ones beside"
    assert (ROOT / "assignment/kafka/java_random.py").read_bytes() == before


def test_what_cannot_be_planted_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "faults.toml").write_text(FAULTS.replace("bits % bound", "bits modulo bound"))
    command = [sys.executable, "-P", "-m", "tools.mutation", "--faults", str(tmp_path / "faults.toml"), "--list"]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "mutate: seen in a fork: the old text is 0 times in assignment/kafka/java_random.py, not once"
    ]
