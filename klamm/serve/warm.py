"""`klamm warm`: a process that has imported all of `klamm serve`, and forks servers for `klamm.cluster.warm_process`.

It rehearses the start of a cluster once, so that the forks find compiled what they need first, and compiles the schemas
of more messages whenever no fork is asked for. It must have no threads when it forks.
"""

import gc
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn

import trio

from klamm.cluster.assembly import open_cluster
from klamm.cluster.plan import ClusterPlan
from klamm.cluster.warm_process import HEAD_BYTES, HELLO
from klamm.controller.settings import Settings
from klamm.protocol.codec.messages import build_function, parse_function
from klamm.protocol.codec.requests import load_api
from klamm.protocol.messages.index import MODULES

RunKlamm = Callable[[Sequence[str]], int]
STDIN: Final = 0
DESCRIPTORS: Final = 4
NEEDED_BY_FORKS: Final = (
    "klamm.serve.command",
    "klamm.control.serving",
    "klamm.broker.dispatch_of_groups",
    "klamm.broker.groups.new_shard",
)
FIRST_APIS: Final = (18, 3, 0, 1, 2, 10, 11, 12, 13, 14, 8, 9, 19, 22, 60, 32, 20, 37, 44)
"""The keys of the APIs that clients use first, in this order: their schemas are compiled before all others."""


def warm_command(run_klamm: RunKlamm) -> int:
    """Fork processes that call `run_klamm` with their arguments, until the other end of stdin is closed. Returns the
    exit code."""
    try:
        asked = socket.socket(fileno=os.dup(STDIN))
        asked.getpeername()
    except OSError:
        sys.stderr.write("klamm warm: stdin is no socket: only klamm.ServerProcess and the pytest fixtures use this\n")
        return 2
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), STDIN)
    for module in NEEDED_BY_FORKS:
        import_module(module)
    trio.run(_rehearse)
    gc.collect()
    gc.freeze()
    with suppress(OSError):
        asked.sendall(HELLO)
        return _Forks(asked, run_klamm).run()
    return 0


async def _rehearse() -> None:
    async with open_cluster(ClusterPlan(settings=Settings())):
        pass


class _Forks:
    """The servers that were forked and live, each with the socket for its reports."""

    def __init__(self, asked: socket.socket, run_klamm: RunKlamm) -> None:
        self._asked = asked
        self._run_klamm = run_klamm
        self._reports: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._ended, self._wakeup = socket.socketpair()

    def run(self) -> int:
        """Fork until the process that asks has ended. A fork ends in here. Returns the exit code."""
        for one in (self._ended, self._wakeup):
            one.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._asked, selectors.EVENT_READ)
        self._selector.register(self._ended, selectors.EVENT_READ)
        compiling: Iterator[None] | None = _compile_schemas()
        while True:
            ready = {key.fileobj for key, _ in self._selector.select(0 if compiling else None)}
            if self._ended in ready:
                self._report_ended()
            if self._asked in ready:
                message, descriptors = _receive(self._asked)
                if message is None:
                    return 0
                if not self._fork(descriptors):
                    _be_the_server(message, descriptors, self._run_klamm)
            elif not ready and compiling and next(compiling, self) is self:
                compiling = None

    def _fork(self, descriptors: Sequence[int]) -> bool:
        """Returns whether this is the warm process."""
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._selector.close()
            for one in (self._asked, self._ended, self._wakeup, *self._reports.values()):
                one.close()
            os.close(descriptors[-1])
            return False
        *others, report = descriptors
        for descriptor in others:
            os.close(descriptor)
        self._reports[pid] = socket.socket(fileno=report)
        self._report(pid, pid)
        return True

    def _report_ended(self) -> None:
        with suppress(BlockingIOError):
            while self._ended.recv(4096):
                pass
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = found
                self._report(pid, os.waitstatus_to_exitcode(status))
                self._reports.pop(pid).close()

    def _report(self, pid: int, number: int) -> None:
        with suppress(OSError):  # the process that asked may have ended
            self._reports[pid].sendall(b"%d\n" % number)


def _receive(asked: socket.socket) -> tuple[Mapping[str, object] | None, list[int]]:
    """The next message with its descriptors; None at the end of the stream."""
    try:
        head, descriptors, _, _ = socket.recv_fds(asked, HEAD_BYTES, DESCRIPTORS)
        if len(head) < HEAD_BYTES or len(descriptors) < DESCRIPTORS:
            return None, descriptors
        body = bytearray()
        while len(body) < int.from_bytes(head):
            piece = asked.recv(int.from_bytes(head) - len(body))
            if not piece:
                return None, descriptors
            body += piece
    except ConnectionError:
        return None, []
    message: Mapping[str, object] = json.loads(body)
    return message, descriptors


def _be_the_server(message: Mapping[str, object], descriptors: Sequence[int], run_klamm: RunKlamm) -> NoReturn:
    """Run the command in a fork, and end the fork. The objects of the warm process are not torn down, which would take
    longer than the rest of the end."""
    exit_code = 1
    try:
        exit_code = run_klamm(_take_over(message, descriptors))
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - the loop of the warm process must not go on in a fork
        traceback.print_exc()
    finally:
        os._exit(exit_code)


def _take_over(message: Mapping[str, object], descriptors: Sequence[int]) -> list[str]:
    """Give this process the descriptors, the environment and the directory of the message. Returns its arguments."""
    arguments, environment, directory = message["arguments"], message["environment"], message["directory"]
    assert isinstance(arguments, list)
    assert isinstance(environment, dict)
    os.setsid()
    for number, descriptor in enumerate(descriptors[:-1]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    with suppress(OSError):  # as for any process whose directory is gone
        os.chdir(str(directory))
    return arguments


def _compile_schemas() -> Iterator[None]:
    """Compile what reads requests and writes responses, one version of one API for each step, the newest first."""
    for key in (*FIRST_APIS, *(key for key in sorted(MODULES) if key not in FIRST_APIS)):
        api = load_api(key)
        assert api is not None, f"API {key} is in the index"
        for version in reversed(api.kept_versions):
            flexible = api.flexible(version)
            parse_function(api.request, version, flexible, "replace")
            build_function(api.response, version, flexible)
            yield
