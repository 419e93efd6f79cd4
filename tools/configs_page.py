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
        f"Klamm has {len(found)} configs. The configs in the first table have the same effect as in Apache Kafka.",
        "The table does not repeat two kinds of broker configs:",
        "",
        "- Defaults of topic and group configs. For example, `log.cleanup.policy` is the default of `cleanup.policy`.",
        "- The minimum and the maximum of group configs, such as `group.share.max.session.timeout.ms`.",
        "",
        "| Config | Of | Effect |",
        "|---|---|---|",
    ]
    obeyed = [(scope, name) for scope, name in listed() if effect_of(name, scope).is_obeyed]
    lines += [f"| `{name}` | {SCOPES[scope]} | {effect_of(name, scope).text} |" for scope, name in obeyed]
    lines += [
        "",
        "The configs in the next table have no effect. Options of `klamm serve` or the simulation replace them:",
        "",
        "| Config | Replaced by |",
        "|---|---|",
    ]
    decided = [(scope, name) for scope, name in listed() if effect_of(name, scope).decided_by]
    lines += [f"| `{name}` | {_code(effect_of(name, scope).decided_by)} |" for scope, name in decided]
    lines += [
        "",
        f"The other {silent} configs have no effect. Klamm validates, stores and shows them. If one of the configs",
        "without effect has another value than its default, `klamm serve` prints a warning at the start.",
        "",
    ]
    return "\n".join(lines)


def _code(text: str) -> str:
    return f"`{text}`" if text.startswith("--") else text


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
