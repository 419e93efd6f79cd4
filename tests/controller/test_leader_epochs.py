"""Leader epochs of a log, compared with a plain list that has the epoch of each offset."""

from hypothesis import given
from hypothesis import strategies as st

from klamm.controller.leader_epochs import NO_EPOCH, NO_OFFSET, LeaderEpochs

appends = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=8)
"""By how much the epoch grows, and how many records are then written in it."""


class Model:
    """`epochs[offset]` is the epoch in which a record was written, from `start` on."""

    def __init__(self) -> None:
        self.start = 0
        self.epochs: list[int] = []
        self.latest = NO_EPOCH

    @property
    def end(self) -> int:
        return len(self.epochs)

    def epoch_at(self, offset: int) -> int:
        """Defined from the start of the log to its end; at the end it is the latest epoch."""
        return self.epochs[offset] if offset < self.end else self.latest

    def end_offset(self, epoch: int) -> tuple[int, int]:
        if epoch in (NO_EPOCH, self.latest) or epoch > self.latest:
            return (epoch, self.end) if epoch == self.latest != NO_EPOCH else (NO_EPOCH, NO_OFFSET)
        there = self.epochs[self.start :]
        found = max((one for one in {*there, self.latest} if one <= epoch), default=epoch)
        later = [offset for offset in range(self.start, self.end) if self.epochs[offset] > epoch]
        return found, later[0] if later else self.end


@given(appends, st.floats(0, 1), st.floats(0, 1))
def test_every_offset_and_every_epoch_is_told_as_a_plain_list_tells_it(
    written: list[tuple[int, int]], cut_start: float, cut_end: float
) -> None:
    epochs, model, epoch = LeaderEpochs(), Model(), 0
    for more, records in written:
        epoch += more
        epochs.begin(epoch, model.end)
        model.latest = epoch
        model.epochs += [epoch] * records
    model.start = round(cut_start * model.end)
    epochs.cut_start(model.start)
    end = model.start + round(cut_end * (model.end - model.start))
    if end < model.end:
        epochs.cut_end(end)
        del model.epochs[end:]
        # A log that is then empty does not show which epoch wrote last.
        model.latest = model.epochs[-1] if end > model.start else epochs.latest
    assert epochs.latest == model.latest
    for offset in range(model.start, model.end):
        assert epochs.epoch_at(offset) == model.epoch_at(offset)
    for requested in range(NO_EPOCH, epoch + 2):
        assert epochs.end_offset(requested, model.end) == model.end_offset(requested)


def test_of_an_epoch_older_than_all_that_is_left_the_beginning_of_the_log_is_told() -> None:
    epochs = LeaderEpochs()
    epochs.begin(3, 0)
    epochs.begin(5, 10)
    epochs.begin(6, 20)
    epochs.cut_start(15)
    assert epochs.epoch_at(14) == NO_EPOCH
    assert epochs.epoch_at(15) == 5
    assert [epochs.end_offset(epoch, 30) for epoch in (3, 4, 5, 6, 7)] == [
        (3, 15),
        (4, 15),
        (5, 20),
        (6, 30),
        (NO_EPOCH, NO_OFFSET),
    ]


class PlainEpochs:
    """A list of all entries, which is searched from its beginning."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []

    def begin(self, epoch: int, offset: int) -> None:
        if self.entries and self.entries[-1][0] == epoch and self.entries[-1][1] <= offset:
            return
        self.entries = [one for one in self.entries if one[0] < epoch and one[1] < offset] + [(epoch, offset)]

    def cut_end(self, offset: int) -> None:
        self.entries = [one for one in self.entries if one[1] < offset]

    def cut_start(self, offset: int) -> None:
        before = [one for one in self.entries if one[1] <= offset]
        if before:
            self.entries = [(before[-1][0], offset), *self.entries[len(before) :]]

    def epoch_at(self, offset: int) -> int:
        return max((epoch for epoch, start in self.entries if start <= offset), default=NO_EPOCH)

    def end_offset(self, asked: int, log_end_offset: int) -> tuple[int, int]:
        epochs = [epoch for epoch, _ in self.entries]
        if asked == NO_EPOCH or not epochs or asked > epochs[-1]:
            return NO_EPOCH, NO_OFFSET
        found = max((epoch for epoch in epochs if epoch <= asked), default=asked)
        return found, min((start for epoch, start in self.entries if epoch > asked), default=log_end_offset)


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(("begin", "begin", "begin", "cut_end", "cut_start")), st.integers(0, 6), st.integers(0, 20)
    ),
    max_size=12,
)


@given(CHANGES)
def test_whatever_begins_and_is_cut_off_epochs_are_those_of_a_plain_list(changes: list[tuple[str, int, int]]) -> None:
    epochs, plain = LeaderEpochs(), PlainEpochs()
    for what, epoch, offset in changes:
        for one in (epochs, plain):
            if what == "begin":
                one.begin(epoch, offset)
            else:
                getattr(one, what)(offset)
        assert epochs.latest == (plain.entries[-1][0] if plain.entries else NO_EPOCH)
        assert [epochs.epoch_at(at) for at in range(-1, 23)] == [plain.epoch_at(at) for at in range(-1, 23)]
        for requested in range(-1, 8):
            assert epochs.end_offset(requested, 30) == plain.end_offset(requested, 30)
