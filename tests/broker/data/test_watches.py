"""Callbacks of partitions: they exist while a request waits, and are removed afterwards."""

from klamm.broker.data.watches import Watches
from klamm.controller.metadata.partition import LogKey
from klamm.protocol.uuid import Uuid


def test_nothing_is_left_of_a_topic_whose_last_callback_is_removed() -> None:
    watches, woken = Watches(), list[LogKey]()
    one, other = Uuid(b"\1" * 16), Uuid(b"\2" * 16)
    keys = [(one, 0), (one, 1), (other, 0)]
    watches.add(keys, woken.append)
    watches.touch_topic(one)
    assert woken == keys[:2]
    watches.remove(keys[:2], woken.append)
    assert (watches.has_topic(one), watches.has_topic(other), list(watches)) == (False, True, keys[2:])
    watches.remove(keys[2:], woken.append)
    assert (bool(watches), watches.has_topic(other)) == (False, False)
