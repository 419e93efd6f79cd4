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
        f"Of {len(found)} configs, these do what they do in Apache Kafka. A broker config from which a topic or a",
        "group inherits, such as `log.cleanup.policy`, is the default of that config, and `group.….min.…` and",
        "`group.….max.…` are bounds of group configs.",
        "",
        "| Config | Of | What it decides |",
        "|---|---|---|",
    ]
    obeyed = [(scope, name) for scope, name in listed() if effect_of(name, scope).is_obeyed]
    lines += [f"| `{name}` | {SCOPES[scope]} | {effect_of(name, scope).text} |" for scope, name in obeyed]
    lines += [
        "",
        "Instead of these, options or the simulation decide:",
        "",
        "| Config | Decided by |",
        "|---|---|",
    ]
    decided = [(scope, name) for scope, name in listed() if effect_of(name, scope).decided_by]
    lines += [f"| `{name}` | {_code(effect_of(name, scope).decided_by)} |" for scope, name in decided]
    lines += [
        "",
        f"The other {silent} configs are stored, validated and shown, and have no other effect. If one of them, or one",
        "of the table above, is set to another value than its default, `klamm serve` names it in a warning at start.",
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
