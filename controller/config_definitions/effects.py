"""What each config does in Klamm. `effects.tsv` lists the configs that do what they do in Kafka, and those that options
of `klamm serve` or the simulation decide; every other config is stored, validated and shown, and does nothing else.

A broker config from which a topic or a group inherits does what the inherited config does.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal, cast

from klamm.controller.config_definitions.table import (
    FORMER_AND_OBEYED,
    Definitions,
    broker_definition,
    broker_definitions,
    client_metrics_definitions,
    group_definitions,
    is_of_security,
    topic_definitions,
)

Scope = Literal["topic", "group", "client-metrics", "broker"]
_GROUP_BOUND: Final = re.compile(r"group\.(consumer|share|streams)\.(min|max)\..*")


@dataclass(frozen=True, slots=True)
class Effect:
    """What a config does. If both texts are empty, it does nothing."""

    text: str = ""
    """What the config does, as in Kafka."""
    decided_by: str = ""
    """The option, or the property of the simulation, that decides instead of the config."""

    @property
    def is_obeyed(self) -> bool:
        return bool(self.text)


_NONE: Final = Effect()


def effect_of(name: str, scope: Scope = "broker") -> Effect:
    """What a config does in Klamm; unknown ones do nothing."""
    found = _table().get((scope, name))
    if found is not None or scope != "broker":
        return found or _NONE
    if _GROUP_BOUND.fullmatch(name):
        return Effect("bound of the values of a group's config")
    defined = broker_definition(name)
    if defined is not None and defined.name != name:
        return effect_of(defined.name)
    inheriting: Mapping[Scope, Definitions] = {"topic": topic_definitions(), "group": group_definitions()}
    for heirs_scope, heirs in inheriting.items():
        for heir in heirs.values():
            obeyed = _table().get((heirs_scope, heir.name))
            if obeyed is not None and any(synonym.name == name for synonym in heir.synonyms):
                return Effect(f"default of {heir.name}: {obeyed.text}")
    return _NONE


def listed() -> list[tuple[Scope, str]]:
    """The scopes and names in `effects.tsv`, in its order."""
    return list(_table())


def effects() -> Mapping[tuple[Scope, str], Effect]:
    """The effects of all configs that are defined, by scope and name."""
    scopes: Mapping[Scope, Iterable[str]] = {
        "topic": topic_definitions(),
        "group": group_definitions(),
        "client-metrics": client_metrics_definitions(),
        "broker": sorted({*broker_definitions(), *(name for scope, name in _table() if scope == "broker")}),
    }
    return {(scope, name): effect_of(name, scope) for scope, names in scopes.items() for name in names}


def without_effect(configs: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Of these broker configs, with their values, those that do nothing, and those that something else decides, with
    what that is. Left out are configs that have their default, and those of TLS and SASL, about which the listeners
    warn."""
    nothing: list[str] = []
    decided: dict[str, str] = {}
    for name in sorted(configs):
        effect = effect_of(name)
        definition = broker_definition(name)
        is_default = definition is not None and configs[name].strip() == definition.default
        if effect.is_obeyed or is_default or is_of_security(name) or name in FORMER_AND_OBEYED:
            continue
        if effect.decided_by:
            decided[name] = effect.decided_by
        else:
            nothing.append(name)
    return nothing, decided


@cache
def _table() -> Mapping[tuple[Scope, str], Effect]:
    _, *lines = Path(__file__).with_name("effects.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return {(cast("Scope", scope), name): Effect(text, decided_by) for scope, name, decided_by, text in rows}
