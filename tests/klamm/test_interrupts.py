"""Ctrl-C ends each command with one line and exit code 130, also while modules are imported."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPTED_IMPORT = """
import sys

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "trio":
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt as error:
                if {in_compiled_module}:
                    raise ImportError("a compiled module cannot be initialised") from error
                raise

sys.meta_path.insert(0, Interrupted())
from klamm.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("in_compiled_module", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        ("try", "--twin", "x", "y"),
        ("clone", "--bootstrap-server", "x:1", "--out", "y"),
        ("reassign-partitions", "--bootstrap-server", "x:1", "--list"),
    ],
)
def test_an_interrupted_import_is_one_line(arguments: tuple[str, ...], in_compiled_module: bool) -> None:
    program = INTERRUPTED_IMPORT.format(in_compiled_module=in_compiled_module)
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"klamm {arguments[0]}: interrupted\n")


def test_another_import_error_is_not_taken_for_an_interrupt() -> None:
    program = INTERRUPTED_IMPORT.format(in_compiled_module=True).replace("from error", "from None")
    program = program.replace("raise KeyboardInterrupt", "raise OSError").replace(
        "except KeyboardInterrupt", "except OSError"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "try", "--twin", "x", "y"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "ImportError: a compiled module" in done.stderr


def test_an_interrupted_clone_is_one_line(tmp_path: Path) -> None:
    """It waits for the answer of a broker, inside trio."""
    with socket.create_server(("127.0.0.1", 0)) as broker:
        port = broker.getsockname()[1]
        command = ["-m", "klamm", "clone", "--bootstrap-server", f"127.0.0.1:{port}", "--out", str(tmp_path / "copy")]
        with subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True) as process:
            broker.settimeout(60)
            connection, _ = broker.accept()
            with connection:
                connection.settimeout(60)
                assert connection.recv(1)
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "klamm clone: interrupted\n")
