"""The create-topic policy: a user's Python function that can refuse topics (`create.topic.policy.class.name`).

The config has its name, `MODULE:CALLABLE`. Each call runs in a thread of its own, because the function may be slow or
never return. A call that takes too long is interrupted, which ends a loop of Python code; if that does not end it, its
thread is abandoned. At most MOST_CALLS_LEFT_BEHIND threads are abandoned at a time. The policy runs in the server's
process and is not isolated from it; docs/topic-policy.md says what it may do.
"""

import inspect
import sys
import traceback
from collections import deque
from collections.abc import Callable
from importlib import import_module
from threading import Event, Lock, Thread
from time import monotonic
from typing import TypeAlias

from klamm.controller.settings import Settings, SettingsError
from klamm.controller.topic_policy import TOPIC_POLICY_CONFIG, Judgement, RequestedTopic
from klamm.protocol.errors import ApiError, ErrorCode

POLICY_SECONDS = 1.0
"""The longest time that a policy may take for one topic, in real seconds."""
MOST_CALLS_LEFT_BEHIND = 8
"""With this many abandoned calls, the policy is not called again until one of them returns."""
REST_SECONDS = 60.0
"""After MOST_CALLS_LEFT_BEHIND calls that took too long, the policy is not called again for this many seconds, counted
from the first of them."""
MOST_TEXT_CHARACTERS = 1_000
"""The policy's text is cut to this length before it is sent; strings of old versions hold 32,767 bytes."""
MOST_CALLS_SHOWN = 20
"""The number of innermost stack frames that are logged of a call that took too long."""

TopicPolicy: TypeAlias = Callable[[RequestedTopic], None]


class PolicyViolation(Exception):
    """A create-topic policy raises this to refuse a topic. The client gets POLICY_VIOLATION with this text."""


class PolicyNotFound(ValueError):
    """The configured name is not that of a callable. The text is one clause for users."""


class PolicyGaveNoVerdict(Exception):
    """The policy did not return in time, or returned something other than None."""


def named_topic_policy(settings: Settings) -> TopicPolicy | None:
    """The policy that the settings name; None if they name none. Raises SettingsError."""
    if settings.topic_policy is None:
        return None
    try:
        return load_topic_policy(settings.topic_policy)
    except PolicyNotFound as error:
        raise SettingsError(f"{TOPIC_POLICY_CONFIG}: {error}") from error


def load_topic_policy(name: str) -> TopicPolicy:
    """The callable that `MODULE:CALLABLE` names; its module is imported. Raises PolicyNotFound."""
    module_name, colon, path = name.partition(":")
    if not (colon and path) or not all(part.isidentifier() for part in [*module_name.split("."), *path.split(".")]):
        raise PolicyNotFound(f"{name[:200]!r} is no MODULE:CALLABLE of Python, such as policies:check_topic")
    try:
        found: object = import_module(module_name)
    except (Exception, SystemExit) as error:
        hint = " (is its directory on PYTHONPATH?)" if isinstance(error, ModuleNotFoundError) else ""
        raise PolicyNotFound(
            f"the module {module_name!r} cannot be imported: {type(error).__name__}: {error}{hint}"
        ) from error
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise PolicyNotFound(f"the module {module_name!r} has no {path!r}") from error
    return checked_topic_policy(found)


def checked_topic_policy(policy: object) -> TopicPolicy:
    """The policy, if it is a plain callable: no class, no coroutine function, no generator. Raises PolicyNotFound."""
    if inspect.isclass(policy):
        raise PolicyNotFound(f"the class {policy.__name__!r} is no policy: a function is expected")
    if not callable(policy):
        raise PolicyNotFound(f"{type(policy).__name__} {repr(policy)[:40]} cannot be called: a function is expected")
    if inspect.iscoroutinefunction(policy) or inspect.isgeneratorfunction(policy):
        raise PolicyNotFound(f"{getattr(policy, '__name__', 'it')!r} is a coroutine: a plain function is expected")
    return policy


class TopicJudge:
    """Calls a policy for topics. Used from one thread at a time; a call returns within `seconds` and never raises."""

    def __init__(
        self, policy: TopicPolicy, seconds: float = POLICY_SECONDS, rest_seconds: float = REST_SECONDS
    ) -> None:
        self._policy = policy
        self._seconds = seconds
        self._lock = Lock()
        self._left_behind = 0
        self._rest_seconds = rest_seconds
        self._gave_up_at: deque[float] = deque(maxlen=MOST_CALLS_LEFT_BEHIND)

    def __call__(self, topic: RequestedTopic) -> Judgement:
        if self._left_behind >= MOST_CALLS_LEFT_BEHIND:
            return _failed(f"{MOST_CALLS_LEFT_BEHIND} calls of the create-topic policy have not returned")
        times = self._gave_up_at
        if len(times) == MOST_CALLS_LEFT_BEHIND and monotonic() < times[0] + self._rest_seconds:
            return _failed(f"{MOST_CALLS_LEFT_BEHIND} calls of the create-topic policy took too long")
        call = _PolicyCall(self._policy, topic)
        thread = Thread(target=self._run, args=(call,), name="create-topic policy", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads
            return _failed("The create-topic policy could not be called", error)
        call.returned.wait(self._seconds)
        with self._lock:
            if call.judgement is None:
                call.is_left_behind = True
                self._left_behind += 1
                self._gave_up_at.append(monotonic())
                late = _failed(f"The create-topic policy did not answer within {self._seconds:g} s")
                _note_where_it_is(late, thread)
                _interrupt(thread)
                return late
        return call.judgement

    def _run(self, call: "_PolicyCall") -> None:
        judgement = call.judge()
        with self._lock:
            call.judgement = judgement
            self._left_behind -= call.is_left_behind
        call.returned.set()


def _note_where_it_is(late: Judgement, thread: Thread) -> None:
    """Add the stack of a late call to the exception that is logged."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is not None and late.failure is not None:
        stack = "".join(traceback.format_stack(frame, MOST_CALLS_SHOWN))
        late.failure.add_note(f"It was here:\n{stack}".rstrip())


def _interrupt(thread: Thread) -> None:
    """Raise SystemExit in the thread, if it runs Python code: an endless loop would slow down all other threads."""
    from ctypes import c_ulong, py_object, pythonapi

    if thread.ident is not None:
        pythonapi.PyThreadState_SetAsyncExc(c_ulong(thread.ident), py_object(SystemExit))


class _PolicyCall:
    """One call of the policy."""

    def __init__(self, policy: TopicPolicy, topic: RequestedTopic) -> None:
        self._policy = policy
        self._topic = topic
        self.judgement: Judgement | None = None
        self.is_left_behind = False
        self.returned = Event()

    def judge(self) -> Judgement:
        """Call the policy and turn its result, or any exception, into a judgement."""
        try:
            result: object = self._policy(self._topic)
        except PolicyViolation as violation:
            return _refused(violation)
        except BaseException as error:  # noqa: BLE001 - any failure of the policy refuses this topic only
            return _failed(f"The create-topic policy failed with {type(error).__name__}", error)
        if result is None:
            return Judgement()
        # A policy that returns False or a coroutine has a bug: accepting the topic would hide it.
        if inspect.iscoroutine(result):
            result.close()
        return _failed(f"The create-topic policy returned {type(result).__name__} instead of None")


def _refused(violation: PolicyViolation) -> Judgement:
    try:
        text = str(violation)
    except Exception as error:  # noqa: BLE001 - the policy's exception may define __str__
        return _failed(f"The create-topic policy failed with {type(error).__name__}", error)
    # Lone surrogates cannot be encoded as UTF-8, and so cannot be sent.
    sent = text[:MOST_TEXT_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
    return Judgement(ApiError(ErrorCode.POLICY_VIOLATION, sent or None))


def _failed(text: str, failure: BaseException | None = None) -> Judgement:
    text = f"{text[:MOST_TEXT_CHARACTERS]}."
    return Judgement(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, text), failure or PolicyGaveNoVerdict(text))
