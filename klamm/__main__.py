"""The entry point of `klamm` and `python -m klamm`. Each command imports only the modules that it needs."""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_AS_KAFKAS_TOOL = 1
EXIT_INTERRUPTED = 130
DEPENDENCIES = frozenset({"construct", "cramjam", "hypercorn", "numpy", "starlette", "structlog", "trio"})
"""What `pip install --no-deps` leaves out. Any other missing module is a bug, or a user's own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. A reader that has closed the pipe of stdout is no error."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _run(given)
    except BrokenPipeError:
        return 0
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in DEPENDENCIES:
            raise
        return _refuse(f"klamm: the package {package!r} is missing in this Python: install Klamm with its dependencies")
    except (KeyboardInterrupt, BaseExceptionGroup, ImportError) as error:
        if not _is_interrupt(error):
            raise
        return _refuse(f"klamm {given[0] if given else ''}".strip() + ": interrupted", EXIT_INTERRUPTED)
    finally:
        _flush_stdout()


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C has caused this error. trio puts KeyboardInterrupt into a group, and a compiled module that is
    interrupted while it is imported raises ImportError."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_interrupt, error.exceptions))
    if isinstance(error, ImportError):
        return _is_interrupt(error.__cause__ or error.__context__)
    return isinstance(error, KeyboardInterrupt)


def _run(given: Sequence[str]) -> int:
    command, options = (given[0], given[1:]) if given else ("", [])
    runs = {
        "serve": _serve,
        "assign": _assign,
        "control": _control,
        "scenario": _scenario,
        "reassign-partitions": _reassign,
        "follow": _follow,
        "clone": _clone,
        "try": _try,
        "wire": _wire,
        "pipeline": _pipeline,
        "broker-properties": _broker_properties,
        "completion": _completion,
        "warm": _warm,
    }
    if command in runs:
        return runs[command](options)
    if command == "help" and options:
        return _run([options[0], "--help"])
    if command in ("", "-h", "--help", "help"):
        from klamm.commands import usage

        return _print(usage())
    if command in ("-V", "--version"):
        from klamm import __version__
        from klamm.commands import KAFKA_VERSION

        return _print(f"klamm {__version__} (Apache Kafka {KAFKA_VERSION})\n")
    from klamm.commands import COMMANDS
    from klamm.protocol.near_names import did_you_mean

    near = did_you_mean(command, ("--help", "--version", *(one.name for one in COMMANDS)))
    return _refuse(f"klamm: there is no command {command!r} (klamm --help lists them){near}")


def _print(text: str) -> int:
    """Write to stdout, if there is one; returns the exit code."""
    try:
        if sys.stdout is not None:
            sys.stdout.write(text)
            sys.stdout.flush()
    except BrokenPipeError:
        pass
    except OSError as error:
        return _refuse(f"klamm: stdout cannot be written: {error.strerror}", EXIT_FAILED)
    return 0


def _flush_stdout() -> None:
    """Write what stdout holds. If its reader has closed the pipe, drop it: Python would end with a traceback."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, sys.stdout.fileno())
            os.close(nothing)


def _serve(options: Sequence[str]) -> int:
    from klamm.console.options import UsageError
    from klamm.serve.options import decode_serve_options

    try:
        decoded = decode_serve_options(options)
    except UsageError as error:
        return _refuse(f"klamm serve: {error}")
    # NumPy's linear algebra, which Klamm does not use, would start a thread for each processor, which takes 60 ms.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # What is imported stays: collections would look at it again and again. The server turns them on when it is ready.
    gc.disable()
    # Imported only now, so that a wrong option is reported at once.
    from klamm.serve.command import serve_command

    return serve_command(decoded)


def _warm(_options: Sequence[str]) -> int:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from klamm.serve.warm import warm_command

    return warm_command(main)


def _assign(options: Sequence[str]) -> int:
    from klamm.assign.options import decode_assign_options
    from klamm.console.options import UsageError

    try:
        decoded = decode_assign_options(options)
    except UsageError as error:
        return _refuse(f"klamm assign: {error}")
    # A filter needs no cleanup, and KeyboardInterrupt during NumPy's import would print a long traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # keep SIG_IGN of a background job
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from klamm.assign.command import assign_command

    return assign_command(decoded)


def _scenario(options: Sequence[str]) -> int:
    """`klamm scenario`."""
    from klamm.console.options import UsageError
    from klamm.scenario.command import scenario_command

    try:
        return scenario_command(options, os.environ)
    except UsageError as error:
        return _refuse(f"klamm scenario: {error}")


def _control(options: Sequence[str]) -> int:
    from klamm.console.options import UsageError
    from klamm.control.command import control_command, decode_control_options

    try:
        return control_command(decode_control_options(options, os.environ))
    except UsageError as error:
        return _refuse(f"klamm control: {error}")


def _reassign(options: Sequence[str]) -> int:
    from klamm.console.options import UsageError
    from klamm.reassign.options import decode_reassign_options

    try:
        decoded = decode_reassign_options(options)
    except UsageError as error:
        return _refuse(f"klamm reassign-partitions: {error}", EXIT_AS_KAFKAS_TOOL)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from klamm.reassign.command import reassign_command

    return reassign_command(decoded)


def _follow(options: Sequence[str]) -> int:
    from klamm.console.options import UsageError
    from klamm.twin.follow_command import decode_follow_options, follow_command

    try:
        decoded = decode_follow_options(options)
    except UsageError as error:
        return _refuse(f"klamm follow: {error}")
    return follow_command(decoded)


def _clone(options: Sequence[str]) -> int:
    from klamm.console.options import UsageError
    from klamm.twin.clone_command import clone_command, decode_clone_options

    try:
        decoded = decode_clone_options(options)
    except UsageError as error:
        return _refuse(f"klamm clone: {error}")
    return clone_command(decoded)


def _try(options: Sequence[str]) -> int:
    from klamm.console.options import UsageError

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from klamm.twin.try_command import decode_try_options, try_command

    try:
        decoded = decode_try_options(options)
    except UsageError as error:
        return _refuse(f"klamm try: {error}")
    return try_command(decoded)


def _wire(options: Sequence[str]) -> int:
    from klamm.console.options import UsageError
    from klamm.wire.command import wire_command

    # A filter needs no cleanup.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # keep SIG_IGN of a background job
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return wire_command(options)
    except UsageError as error:
        return _refuse(f"klamm wire: {error}")


def _pipeline(options: Sequence[str]) -> int:
    from klamm.analysis.command import decode_pipeline_options, pipeline_command
    from klamm.console.options import UsageError

    try:
        decoded = decode_pipeline_options(options)
    except UsageError as error:
        return _refuse(f"klamm pipeline: {error}")
    return pipeline_command(decoded)


def _broker_properties(options: Sequence[str]) -> int:
    from klamm.broker_properties import broker_properties_text
    from klamm.console.options import UsageError

    try:
        return _print(broker_properties_text(options))
    except UsageError as error:
        return _refuse(f"klamm broker-properties: {error}")


def _completion(options: Sequence[str]) -> int:
    from klamm.completion import completion_text
    from klamm.console.options import UsageError

    try:
        return _print(completion_text(options))
    except UsageError as error:
        return _refuse(f"klamm completion: {error}")


def _refuse(reason: str, exit_code: int = EXIT_REFUSED) -> int:
    with suppress(OSError, AttributeError):  # there may be no stderr
        sys.stderr.write(f"{' '.join(reason.split())}\n")
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
