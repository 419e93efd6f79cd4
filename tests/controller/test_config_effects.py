"""What each config does: the table agrees with the code, and what does nothing is named at the start."""

import re
from pathlib import Path

import pytest

from klamm.cluster.options import checked_options
from klamm.cluster.plan import FREE_PORTS, plan_cluster
from klamm.controller.config_definitions.effects import effect_of, effects, listed
from klamm.controller.config_definitions.table import internal_definitions

ROOT = Path(__file__).parents[2]
ROOMS = ("controller", "broker", "server", "klamm/cluster")
VALIDATE_ONLY = {
    "controller/config_definitions",
    "controller/configs/alteration.py",
    "controller/configs/broker_dependencies.py",
    "controller/configs/broker_rules.py",
    "controller/configs/effective.py",
    "controller/configs/group_rules.py",
    "controller/configs/topic_rules.py",
    "controller/handlers/configs",
}
"""Files that mention configs in order to validate or to show them."""
MADE_OF_PARTS = {
    *("quota.window.num", "quota.window.size.seconds"),
    *("controller.quota.window.num", "controller.quota.window.size.seconds"),
    *("streams.initial.rebalance.delay.ms", "streams.num.standby.replicas"),
    *(
        f"{kind}.{name}.ms"
        for kind in ("consumer", "share", "streams")
        for name in ("assignment.interval", "heartbeat.interval", "session.timeout")
    ),
}
"""Names that the code puts together."""
WITHOUT_DOTS = {"match", "metrics"}
"""Configs of client metrics, whose names are not told apart from other words."""
WHILE_VALIDATING = {"remote.log.storage.system.enable"}
"""Configs that decide which values of others are valid."""
READ_AS_CLIENTS_DO = {
    "sasl.login.callback.handler.class",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.endpoint.identification.algorithm",
}
"""Configs with which simulated brokers connect to real ones; the admin client reads them."""
WRITTEN_ELSEWHERE = {
    "compression.type": "a config that internal topics are made with",
    "retention.ms": "a config that internal topics are made with",
    "segment.bytes": "a config that internal topics are made with",
    "controller.quorum.bootstrap.servers": "a ready line",
    "sasl.client.callback.handler.class": "a config of real brokers that is not warned of",
    "sasl.mechanism.controller.protocol": "a config of real brokers that is not warned of",
}
"""Names in the code that stand for something else than obeying the config."""


def mentioned() -> set[str]:
    """The configs whose names are literals in code that decides."""
    literals: set[str] = set()
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            where = path.relative_to(ROOT).as_posix()
            if not any(where.startswith(skipped) for skipped in VALIDATE_ONLY):
                literals |= set(re.findall(r'"([a-z][a-z0-9.]+\.[a-z0-9.]+|listeners)"', path.read_text()))
    return literals & ({name for _, name in effects()} | set(internal_definitions()))


def test_the_table_lists_what_the_code_asks_for_and_nothing_else() -> None:
    in_table = {name for _, name in listed()}
    assert mentioned() - set(WRITTEN_ELSEWHERE) - in_table == set()
    obeyed = {name for scope, name in listed() if effect_of(name, scope).is_obeyed}
    assert obeyed - mentioned() == MADE_OF_PARTS | WHILE_VALIDATING | WITHOUT_DOTS | READ_AS_CLIENTS_DO


def test_each_row_is_a_config_and_has_one_text() -> None:
    known = {name for _, name in effects()} | set(internal_definitions())
    for scope, name in listed():
        effect = effect_of(name, scope)
        assert name in known
        assert bool(effect.text) != bool(effect.decided_by)
    assert len(set(listed())) == len(listed())


@pytest.mark.parametrize(("name", "text"), [
    ("log.cleanup.policy", "default of cleanup.policy: "),
    ("group.consumer.session.timeout.ms", "default of consumer.session.timeout.ms: "),
    ("group.share.max.session.timeout.ms", "bound of "),
    ("listener.name.internal.max.connections", "maximum number of connections of a node"),
    ("num.io.threads", ""),
    ("no.such.config", ""),
])  # fmt: skip
def test_configs_that_are_inherited_do_what_their_heirs_do(name: str, text: str) -> None:
    assert effect_of(name).text.startswith(text)
    assert bool(effect_of(name).text) == bool(text)


def warnings(**options: object) -> tuple[str, ...]:
    return plan_cluster(checked_options(options), {}, FREE_PORTS).warnings


def test_configs_that_do_nothing_are_named_unless_they_have_their_defaults() -> None:
    configs = {"num.partitions": 3, "num.io.threads": 4, "metadata.max.retention.ms": 5, "queued.max.requests": 500}
    own = {2: {"background.threads": 11, "ssl.client.auth": "none"}}
    assert warnings(configs=configs, broker_configs=own) == (
        "these configs are stored and shown, and have no other effect here: background.threads, num.io.threads",
        "options or the simulation decide, so these configs have no effect: metadata.max.retention.ms (--keep-history)",
        "no listener uses TLS or SASL, so these configs have no effect: ssl.client.auth",
    )


def test_configs_that_do_something_are_not_named() -> None:
    obeyed = {
        "broker.session.timeout.ms": 1000,
        "log.cleanup.policy": "compact",
        "group.consumer.max.session.timeout.ms": 70_000,
        "group.streams.assignment.interval.ms": 0,
        "offsets.topic.num.partitions": 1,
        "unclean.leader.election.enable": True,
    }
    assert warnings(configs=obeyed) == ()


def test_a_folder_is_not_named_if_the_option_for_it_is_given() -> None:
    assert warnings(configs={"log.dirs": "/data"}, data_dir="data") == ()
