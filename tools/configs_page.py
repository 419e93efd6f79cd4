#!/usr/bin/env python3
"""Writes the table of docs/configs.md that says what each config does.

python tools/configs_page.py           writes the table
python tools/configs_page.py --check   exits 1 if the table differs from what would be written
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from klamm.controller.config_definitions.effects import effect_of, effects, listed  # noqa: E402 - once the path is set

PAGE = ROOT / "docs" / "configs.md"
BEGIN, END = "<!-- begin: written by tools/configs_page.py -->\n", "<!-- end -->"
SCOPES = {"topic": "Topic", "group": "Group", "client-metrics": "Client metrics", "broker": "Broker"}


def table() -> str:
    """The text between the marks."""
    found = effects()
    silent = sum(not effect.text and not effect.decided_by for effect in found.values())
    lines = [
        f"Klamm accepts {len(found)} configs. The configs in the following table have the same effect as in Apache",
        "Kafka, except for the three configs that exist only in Klamm (KIP-409, KIP-578). The following two types of",
        "broker configs also have the same effect as in Apache Kafka, but are not in the table:",
        "",
        "- Broker configs that set the default of a topic config or a group config are not in the table. For example,",
        "  `log.cleanup.policy` sets the default of `cleanup.policy`.",
        "- Broker configs that set the minimum or the maximum of a group config are not in the table. For example,",
        "  `group.share.max.session.timeout.ms` sets the maximum of `share.session.timeout.ms`.",
        "",
        "| Config | Resource | What the config sets |",
        "|---|---|---|",
    ]
    obeyed = [(scope, name) for scope, name in listed() if effect_of(name, scope).is_obeyed]
    lines += [f"| `{name}` | {SCOPES[scope]} | {effect_of(name, scope).text} |" for scope, name in obeyed]
    lines += [
        "",
        "The configs in the following table have no effect in Klamm:",
        "",
        "| Config that has no effect | What Klamm uses instead |",
        "|---|---|",
    ]
    decided = [(scope, name) for scope, name in listed() if effect_of(name, scope).decided_by]
    lines += [f"| `{name}` | {_instead(effect_of(name, scope).decided_by)} |" for scope, name in decided]
    lines += [
        "",
        f"The remaining {silent} configs also have no effect. Klamm validates and stores the values of these configs,",
        "and returns the values in DescribeConfigs responses. If you set a config that has no effect to a value other",
        "than the default value, `klamm serve` prints a warning at the start.",
        "",
    ]
    return "\n".join(lines)


def _instead(text: str) -> str:
    return f"the option `{text}` of `klamm serve`" if text.startswith("--") else text


def main() -> int:
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, behind = rest.partition(END)
    wanted = f"{before}{BEGIN}{table()}{END}{behind}"
    if sys.argv[1:] == ["--check"]:
        if page == wanted:
            return 0
        print("the table of docs/configs.md is not what tools/configs_page.py writes")
        return 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
