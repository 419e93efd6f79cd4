"""Fuzzes the server with hypothesis, which draws sessions and minimises one that breaks a promise before it is kept."""

from contextlib import suppress
from random import Random
from time import monotonic
from typing import Final

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from tools.fuzzing.broken import Broken
from tools.fuzzing.hunt import Hunt
from tools.fuzzing.session_making import make_session
from tools.fuzzing.sessions import Session

SHRINKING_SECONDS: Final = 20.0


def hypothesis_turn(hunt: Hunt, seed: int, deadline: float) -> None:
    """Play sessions until the deadline, or until one breaks a promise."""
    ends_at, failing, first_promise = deadline, list[tuple[Session, Broken]](), ""

    @hypothesis.seed(seed)
    @settings(
        max_examples=100_000,
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        print_blob=False,
    )
    @hypothesis.given(st.randoms(use_true_random=False))
    def try_one(chance: Random) -> None:
        nonlocal ends_at, first_promise
        if monotonic() >= ends_at:
            raise _Over
        session = make_session(chance, hunt.server().topic_ids)
        try:
            hunt.play(session)
        except Broken as broken:
            if not first_promise:
                first_promise, ends_at = broken.promise, monotonic() + SHRINKING_SECONDS
            if broken.promise == first_promise:
                failing.append((session, broken))
                raise

    with suppress(Broken, _Over, HypothesisException, ExceptionGroup):  # `failing` has the relevant part
        try_one()
    if failing:
        hunt.keep(*min(failing, key=_size))


class _Over(BaseException):
    """Raised at the deadline; hypothesis must not treat it as a finding."""


def _size(failing: tuple[Session, Broken]) -> tuple[int, int]:
    session, _ = failing
    return len(session), sum(len(step.sent or b"") for step in session)
