"""All partitions with records agree with plain lists after any sequence of events."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from klamm.broker.data import data_plane
from tests.broker.data.history import ALL, BROKERS, LAG_MAX_MS, ROOMS, ROWS, History

MANY = data_plane.PARTITIONS_PER_STEP
PICKS = st.sampled_from([0, 0, 0, 0, 1, 2, 3])
BROKER = st.sampled_from(BROKERS)
STEPS: list[tuple[int, str, list[st.SearchStrategy[Any]]]] = [
    (7, "wait", [st.sampled_from([1, 2, 9, 10, 99, 500, 1000, 2000, LAG_MAX_MS, LAG_MAX_MS + 1])]),
    (
        9,
        "produce",
        [
            PICKS,
            st.sampled_from([1, 1, 2, 10, 100]),
            st.sampled_from([-1, -1, 7, 8]),
            st.sampled_from(["next", "next", "again", "gap"]),
        ],
    ),
    (2, "delete_records", [PICKS, st.integers(0, 320)]),
    (4, "elect", [PICKS, st.sampled_from([*BROKERS, -1])]),
    (5, "set_isr", [PICKS, st.sets(BROKER, min_size=1)]),
    (2, "reassign", [PICKS, st.sampled_from(ROWS)]),
    (1, "elect_in_many", [st.sampled_from([0, 1, 2])]),
    (1, "fence", [BROKER, st.booleans()]),
    (2, "set_down", [st.sets(BROKER, max_size=2)]),
    (2, "set_min_isr", [st.sampled_from(["t1", "t2", ""]), st.sampled_from([None, 1, 2, 3])]),
    (1, "replace_topic", [PICKS]),
    (1, "restart", []),
    (1, "wait_for_some", [st.sets(PICKS, max_size=3)]),
    (5, "look_at_isrs", [st.sampled_from([1, 100]), st.booleans()]),
    (1, "look_at_what_was_touched", []),
    (1, "look", []),
]
"""How often each step is drawn, and its arguments."""
STEP = st.sampled_from([step for weight, *step in STEPS for _ in range(weight)]).flatmap(
    lambda step: st.tuples(st.just(step[0]), *step[1])
)


SHORT_OF_THE_EPOCH = [
    *[("produce", 0, 10, -1, "next")] * 3,
    ("set_down", {2}),
    ("wait", 1000),
    ("set_min_isr", "t1", 2),
    ("elect", 0, 1),
    ("set_isr", 0, {1}),
    ("set_down", {0}),
    ("look_at_isrs", 100, False),
    ("look",),
    ("wait", 1000),
    ("look_at_isrs", 100, True),
]
"""Broker 2 has everything that is committed, which is nothing, but not everything that broker 1 has when it begins to
lead."""
MANY_TO_LOOK_AT = [
    ("set_down", {2}),
    *[("produce", index, 10, -1, "next") for index in range(3)],
    ("wait", LAG_MAX_MS + 1),
    ("look_at_isrs", 1, True),
]
NOBODY_IS_TOLD = [
    ("produce", 0, 10, -1, "next"),
    ("set_down", {1, 2}),
    ("set_down", {0, 1, 2}),
    ("wait", LAG_MAX_MS + 1),
    ("look_at_isrs", 100, True),
]
"""A leader that is down removes no replica from the ISR."""
SHORT_OF_WHAT_IS_COMMITTED = [
    ("set_isr", 0, {0}),
    ("produce", 0, 10, -1, "next"),
    ("look_at_isrs", 1, False),
    ("look",),
]
WITHOUT_RECORDS = [
    ("wait_for_some", {0, 2}),
    ("elect", 0, 1),
    ("look_at_what_was_touched",),
    ("elect_in_many", 2),
    ("look_at_what_was_touched",),
    ("produce", 0, 1, -1, "next"),
    ("elect_in_many", 0),
    ("look_at_what_was_touched",),
]
"""Requests that wait for the first record of a partition, in a topic with records elsewhere or with none."""
LATER_FIRST = [
    ("produce", 0, 10, -1, "next"),
    ("set_down", {1}),
    ("wait", 500),
    ("set_down", set()),
    ("look",),
]
"""Of two members of the ISR that lack records, the first one catches up last."""
IN_ANOTHER_ORDER = [("produce", 1, 1, -1, "next"), ("reassign", 1, (0, 1, 2)), ("look",)]
JUST_FITTING = [*[("produce", 1, 1, -1, "next")] * 4, ("produce", 0, 1, -1, "next"), ("produce", 0, 1, -1, "next")]
"""In memory for five such batches without a file: the last one is refused."""
REACHED = {
    "a batch is missing",
    "a batch is repeated",
    "a batch goes to the file",
    "a batch just fits",
    "a replica joins",
    "a replica leaves",
    "more ISRs are due than are asked for",
    "records are cut off",
    "the epoch's start alone keeps a replica out",
    "there is a placeholder",
    "there is no room",
    "what is committed alone keeps a replica out",
}


def test_whatever_happens_partitions_are_what_plain_lists_make_of_them() -> None:
    reached: set[str] = set()

    @given(
        rate=st.sampled_from([10, 10, 100, 1000, 1_000_000]),
        room=st.sampled_from(ROOMS),
        per_step=st.sampled_from([1, 2, MANY]),
        steps=st.lists(STEP, min_size=30, max_size=90),
    )
    @example(10, (ALL, ALL), MANY, SHORT_OF_THE_EPOCH)
    @example(10, (ALL, ALL), MANY, SHORT_OF_WHAT_IS_COMMITTED)
    @example(10, (ALL, ALL), MANY, MANY_TO_LOOK_AT)
    @example(10, (ALL, ALL), MANY, NOBODY_IS_TOLD)
    @example(10, (ALL, ALL), MANY, WITHOUT_RECORDS)
    @example(10, (ALL, ALL), MANY, LATER_FIRST)
    @example(10, (ALL, ALL), MANY, IN_ANOTHER_ORDER)
    @example(10, ROOMS[2], MANY, JUST_FITTING)
    # Followers need not fetch what a client deletes: the ISR is checked at the time at which they would have fetched
    # it.
    @example(
        10,
        (ALL, ALL),
        MANY,
        [("produce", 0, 1, -1, "next"), ("set_isr", 0, {0}), ("delete_records", 0, 1), ("look_at_isrs", 1, False)],
    )
    def play(rate: int, room: tuple[int, int], per_step: int, steps: list[Any]) -> None:
        history = History(rate, room)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(data_plane, "PARTITIONS_PER_STEP", per_step)
            for name, *arguments in steps:
                getattr(history, name)(*arguments)
            history.look()
        reached.update(history.reached)

    play()
    assert reached == REACHED, "every rule of the model is met"
