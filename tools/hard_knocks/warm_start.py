"""Starts servers quickly: as forks of a process that has already imported all of `klamm serve`.

A new interpreter would take longer to start than the rest of a round, and no data can be lost during its imports. A
fork behaves like the command: it has its own descriptors 0, 1 and 2, and an exit code.

    python -m tools.hard_knocks.warm_start        with a socket as stdin: see `WarmInterpreter`
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Self

import trio
from trio._core import _run

ROOT = Path(__file__).resolve().parents[2]
STDIN = 0
MAX_REQUEST_BYTES = 65_536
NUMBER_BYTES = 4
IMPORTED_AHEAD = ("klamm.serve.command", "klamm.control.serving")
SNAPSHOT_PACE = {"LOOK_SECONDS": 0.02, "PATIENCE_SECONDS": 0.05}
"""A server lives for less than a second here, and the snapshots that it takes by itself would come later."""


class WarmInterpreter:
    """The process from which servers are forked, one after the other. It ends with this process, however this one
    ends."""

    def __enter__(self) -> Self:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tools.hard_knocks.warm_start"],
                stdin=theirs.fileno(),
                # As in klamm.__main__, which would be too late for a fork.
                env={"OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,  # What stops this process, such as Ctrl-C, does not reach the forks.
            )
        self._ours = ours
        self._told = trio.socket.from_stdlib_socket(ours)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._told.close()
        self._process.wait()

    async def fork(self, arguments: Sequence[str], descriptors: Sequence[int]) -> int:
        """Run `klamm serve` with these arguments, and these descriptors as 0, 1 and 2. Returns the process id. Not
        cancellable, because the id of a started process must be known. The id is not reused before the next fork, even
        after the process has ended."""
        socket.send_fds(self._ours, [json.dumps(list(arguments)).encode()], list(descriptors))
        return await self._read_number()

    async def wait(self) -> int:
        """The exit code of the last fork after its end, negative after a signal."""
        return await self._read_number()

    async def _read_number(self) -> int:
        reported = await self._told.recv(NUMBER_BYTES)
        assert len(reported) == NUMBER_BYTES, "the warm interpreter has failed; what it wrote to stderr tells more"
        return int.from_bytes(reported, signed=True)


def main() -> int:
    """Fork servers until the socket is closed; in a fork, be that server."""
    from klamm.__main__ import main as run_klamm
    from klamm.server import snapshot_keeper

    for module in IMPORTED_AHEAD:
        import_module(module)
    for name, seconds in SNAPSHOT_PACE.items():
        setattr(snapshot_keeper, name, seconds)
    with socket.socket(fileno=os.dup(STDIN)) as control:
        requested = _fork_when_asked(control)
    if requested is None:
        return 0
    arguments, descriptors = requested
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # Otherwise the tasks of every server would run in the order of the one before.
    _run._r.seed()
    return run_klamm(["serve", *arguments])


def _fork_when_asked(control: socket.socket) -> tuple[list[str], list[int]] | None:
    """Returns the arguments in each fork, and None in the process itself when the socket is closed."""
    process_id = None
    with suppress(ConnectionError):
        while True:
            requested, descriptors, _, _ = socket.recv_fds(control, MAX_REQUEST_BYTES, 3)
            if process_id is not None:
                os.waitpid(process_id, 0)
            if not requested:
                return None
            process_id = os.fork()
            if not process_id:
                return json.loads(requested), descriptors
            for descriptor in descriptors:
                os.close(descriptor)
            _tell(control, process_id)
            # It stays a zombie, so that its id is not reused while it may still be killed.
            ended = os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOWAIT)
            assert ended is not None
            _tell(control, ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)
    return None


def _tell(control: socket.socket, number: int) -> None:
    control.sendall(number.to_bytes(NUMBER_BYTES, signed=True))


if __name__ == "__main__":
    sys.exit(main())
