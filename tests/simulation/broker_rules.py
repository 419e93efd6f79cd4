"""The part of the machine that is brokers: they come, beat, fall silent, stop, return and are forgotten."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.brokers.unregister_broker import UnregisterBrokerRequest
from klamm.protocol.records.brokers import RegisterBrokerRecord
from tests.controller.handlers.cluster import directory
from tests.simulation.invariants import Simulated
from tests.simulation.model import LEADERS_MS, SESSION_MS, Model, ModelBroker
from tests.simulation.strategies import broker_ids, seldom, some_broker_ids
from tests.simulation.traced_cluster import TracedCluster


class BrokerRules(RuleBasedStateMachine):
    """What brokers do."""

    cluster: TracedCluster
    model: Model
    simulated: Simulated

    def stand_up(self, broker_id: int) -> None:
        """Whoever does something is not down."""

    def is_up(self, broker_id: int) -> bool:
        """Whether a broker does what brokers do by themselves."""
        return True

    @rule(broker_id=broker_ids, again=seldom, clean=st.booleans())
    def register(self, broker_id: int, again: bool, clean: bool) -> None:
        """A new life of a broker, or the same one once more."""
        self.stand_up(broker_id)
        now_ms, known = self.cluster.clock.now_ms, self.model.brokers.get(broker_id)
        same = known is not None and again
        last_life = self.cluster.lives.get(broker_id, 0)
        self.cluster.lives[broker_id] = known.life if known and same else last_life + 1
        previous = known.epoch if known and clean else -1
        with self.cluster.writing() as written:
            response = self.cluster.register(broker_id, previous_broker_epoch=previous)
        if known and not same and known.heard and now_ms - known.last_contact_ms < SESSION_MS:
            assert response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            assert written == []
            self.cluster.lives[broker_id] = last_life
            return
        assert response.error_code == ErrorCode.NONE
        assert isinstance(written[-1], RegisterBrokerRecord)
        if known and same:
            assert response.broker_epoch == known.epoch
            known.cordoned = False
            self.model.fill()
            return
        assert response.broker_epoch == self.cluster.log.end_offset - 1, "the epoch is the record's offset"
        self.model.lose(broker_id, distrusted=not (known and clean))
        life = self.cluster.lives[broker_id]
        self.model.brokers[broker_id] = ModelBroker(response.broker_epoch, life, last_contact_ms=now_ms)
        self.model.brokers_changed()

    @rule(
        broker_id=broker_ids,
        lag=st.sampled_from([0, 0, 0, 1, 1000]),
        want_fence=seldom,
        want_shut_down=seldom,
        stale=seldom,
    )
    def heartbeat(self, broker_id: int, lag: int, want_fence: bool, want_shut_down: bool, stale: bool) -> None:
        self._say(broker_id, lag, want_fence=want_fence, want_shut_down=want_shut_down, stale=stale)

    def _say(
        self, broker_id: int, lag: int, *, want_fence: bool, want_shut_down: bool, stale: bool, **fields: Any
    ) -> None:
        self.stand_up(broker_id)
        known = self.model.brokers.get(broker_id)
        seen = self.cluster.log.end_offset - 1 - lag
        response = self.cluster.heartbeat(
            broker_id,
            current_metadata_offset=seen,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            broker_epoch=(known.epoch if known else -1) - stale,
            **fields,
        )
        if known is None or stale:
            assert response.error_code == ErrorCode.STALE_BROKER_EPOCH
            return
        known.last_contact_ms, known.heard = self.cluster.clock.now_ms, True
        may_stop = self._heard(broker_id, known, seen, want_fence, want_shut_down)
        assert (response.error_code, response.is_caught_up, response.is_fenced, response.should_shut_down) == (
            ErrorCode.NONE,
            seen >= known.epoch,
            known.fenced,
            may_stop,
        )

    def _heard(self, broker_id: int, known: ModelBroker, seen: int, want_fence: bool, want_shut_down: bool) -> bool:
        """What a heartbeat makes of a broker; whether it may stop."""
        if known.fenced:
            if not want_shut_down and not want_fence and not known.leaving and seen >= known.epoch:
                known.fenced = False
                self.model.regain(broker_id)
                self.model.brokers_changed()
                self.model.fill()
            return want_shut_down
        if known.leaving:
            if want_shut_down and seen + 1 >= known.shutdown_offset:
                self.model.fence(broker_id)
                return True
            return False
        if want_shut_down and (want_fence or not self.model.leads(broker_id)):
            self.model.fence(broker_id)
            return True
        if want_shut_down:
            known.leaving = True
            self.model.lose(broker_id)
            known.shutdown_offset = self.cluster.log.end_offset
        elif want_fence:
            self.model.fence(broker_id)
        return False

    @rule(broker_id=broker_ids, clean=st.booleans())
    def come_up(self, broker_id: int, clean: bool) -> None:
        """A broker registers, reads what there is, serves and catches up."""
        self.register(broker_id, again=False, clean=clean)
        self._beat(broker_id)
        self.pass_time(0)

    @rule(silent=some_broker_ids)
    def fall_silent(self, silent: set[int]) -> None:
        """Some brokers are not heard of for a session; the others are."""
        self.cluster.clock.advance(SESSION_MS)
        for broker_id, broker in list(self.model.brokers.items()):
            if broker_id not in silent and not broker.fenced and self.is_up(broker_id):
                self._beat(broker_id)
        self.pass_time(0)

    @rule(broker_id=broker_ids)
    def shut_down(self, broker_id: int) -> None:
        """A controlled shutdown. Who is fenced by then is a process no more, whose place another may take at once."""
        for _ in range(2):
            self.heartbeat(broker_id, lag=0, want_fence=False, want_shut_down=True, stale=False)
        known = self.model.brokers.get(broker_id)
        if known and known.fenced:
            self.cluster.end_session(broker_id)
            known.heard = False

    def _beat(self, broker_id: int, **fields: Any) -> None:
        self._say(broker_id, 0, want_fence=False, want_shut_down=False, stale=False, **fields)

    @rule()
    def all_beat(self) -> None:
        for broker_id, broker in list(self.model.brokers.items()):
            if not broker.leaving and self.is_up(broker_id):
                self._beat(broker_id)

    @rule(milliseconds=st.sampled_from([0, 1, 4_000, SESSION_MS - 1, SESSION_MS, 60_000]))
    def pass_time(self, milliseconds: int) -> None:
        self.cluster.clock.advance(milliseconds)
        self.cluster.tick()
        self.model.pass_time(self.cluster.clock.now_ms)

    @rule(broker_id=broker_ids, closed=st.booleans())
    def cordon(self, broker_id: int, closed: bool) -> None:
        """A broker says that its log directory takes no new replicas, or that it does again (KIP-1066)."""
        known = self.model.brokers.get(broker_id)
        if known is not None:
            known.cordoned = closed
            self._beat(broker_id, cordoned_log_dirs=[directory(broker_id)] if closed else [])
            self.model.fill()

    @rule(broker_id=st.sampled_from([2, 5, 9]))
    def unregister(self, broker_id: int) -> None:
        known = self.model.brokers.get(broker_id)
        response = self.cluster.ask(UnregisterBrokerRequest(broker_id=broker_id))
        assert response.error_code == (ErrorCode.NONE if known else ErrorCode.BROKER_ID_NOT_REGISTERED)
        if known:
            self.model.lose(broker_id)
            del self.model.brokers[broker_id]
            self.model.brokers_changed()

    @rule()
    def restart_the_controller(self) -> None:
        """Sessions are forgotten: whoever was unfenced has one more to be heard again."""
        self.cluster.restart()
        self.model.restart()
        self.model.look_at_leaders_ms = self.cluster.clock.now_ms + LEADERS_MS
        for broker in self.model.brokers.values():
            broker.last_contact_ms, broker.heard, broker.shutdown_offset = self.cluster.clock.now_ms, False, 0
