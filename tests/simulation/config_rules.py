"""The part of the machine that is configs: limits on every level, placeholders on and off, minimum ISRs."""

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.records.configs import ConfigRecord
from tests.simulation.judgement import Asked
from tests.simulation.model_configs import (
    BROKER,
    DELETE,
    MAX_BROKER_PARTITIONS,
    MAX_PARTITIONS,
    MIN_ISR,
    SET,
    TOPIC,
    UNDER_REPLICATED,
    Alteration,
    Edit,
)
from tests.simulation.strategies import alterations, asked, limit_edits, picks, seldom
from tests.simulation.topic_rules import TopicRules


class ConfigRules(TopicRules):
    """What administrators do to configs."""

    @rule(wanted=alterations, broker_id=asked, validate_only=seldom)
    def alter_configs(self, wanted: Sequence[Alteration], broker_id: int | None, validate_only: bool) -> None:
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                    configs=[
                        AlterableConfig(
                            name=edit.name, config_operation=DELETE if edit.value is None else SET, value=edit.value
                        )
                        for edit in one.edits
                    ],
                )
                for one in wanted
            ],
            validate_only=validate_only,
        )
        judge = Asked(self.model, broker_id)
        expected = [int(judge.judge_alteration(one)) for one in wanted]
        with self.cluster.writing() as written:
            response = self.cluster.ask(request, broker_id=broker_id)
        assert [result.error_code for result in response.responses] == expected
        made = [one for one, code in zip(wanted, expected, strict=True) if code == ErrorCode.NONE and not validate_only]
        logged = {record.resource_name for record in written if isinstance(record, ConfigRecord)}
        assert logged <= {one.resource_name for one in made}
        assert made or not written
        for one in made:
            self._apply(one)
        self.model.fill()

    def _apply(self, one: Alteration) -> None:
        model = self.model
        if one.resource_type == TOPIC:
            [edit] = one.edits
            value = None if edit.value is None else int(edit.value)
            # What stays as it is, is not written.
            if value != model.topics[one.resource_name].min_isr:
                model.set_min_isr(one.resource_name, value)
            return
        model.configs.edit(one.resource_name, one.edits)
        if any(edit.name == MIN_ISR for edit in one.edits):
            model.set_min_isr(None, None)

    @rule(edit=limit_edits, broker_id=asked, own=seldom)
    def set_limit(self, edit: Edit, broker_id: int | None = 1, own: bool = False) -> None:
        name = str(broker_id) if own and broker_id is not None else ""
        self.alter_configs([Alteration(BROKER, name, [edit])], broker_id, validate_only=False)

    @rule(pick=picks, spare=st.integers(0, 4), of_broker=st.booleans(), broker_id=asked, own=seldom)
    def set_limit_near(
        self, pick: int, spare: int, of_broker: bool, broker_id: int | None = 1, own: bool = False
    ) -> None:
        """A limit that leaves little room, or none, to some broker or to the cluster."""
        held = sorted(self.model.held().values()) or [0]
        there = held[pick % len(held)] if of_broker else self.model.partition_count()
        name = MAX_BROKER_PARTITIONS if of_broker else MAX_PARTITIONS
        self.set_limit(Edit(name, str(max(1, there + spare))), broker_id, own=own)

    @rule(on=st.sampled_from([True, True, False]))
    def allow_placeholders(self, on: bool) -> None:
        edit = Edit(UNDER_REPLICATED, "true" if on else None)
        self.alter_configs([Alteration(BROKER, "", [edit])], 1, validate_only=False)

    @precondition(lambda self: hasattr(self, "model") and self.model.topics)
    @rule(pick=picks, value=st.sampled_from([None, "1", "2", "3"]))
    def set_min_isr(self, pick: int, value: str | None) -> None:
        self.alter_configs([Alteration(TOPIC, self._picked(pick), [Edit(MIN_ISR, value)])], 1, validate_only=False)
