"""The page of all settings, made from the code: `python -m headwater.settings_page docs/configuration.md`."""

import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from inspect import cleandoc
from pathlib import Path
from typing import Any

from headwater.settings import HIGHER, LOWER, MEMORY, SECTIONS, USERS, variable

_HEAD = '''\
# Settings

<!-- Made by: python -m headwater.settings_page docs/configuration.md -->

A call of the library reads no file: `build_agent` takes what it is given. `headwater doctor`, and who \
calls `Settings.load`, reads the project's settings and the user's environment; `headwater dream` and \
`headwater memory` take the memory folder from there:

```python
from pathlib import Path

from headwater.settings import Settings

Path("headwater.toml").write_text("""
memory = ".headwater"

[policy]
window = 64_000

[budget]
steps = 20
""")
settings = Settings.load(".", {"HEADWATER_POLICY_KEEP_MESSAGES": "8"})
print(settings.policy.window, settings.sources["policy.window"])  # 64000 headwater.toml
print(settings.policy.keep_messages, settings.sources["policy.keep_messages"])
```

Give `settings.policy`, `settings.prices`, `settings.budget` and `settings.memory` to `build_agent` \
under the same names. Without a budget `build_agent` bounds only how deep and how widely an agent \
delegates; `settings.budget` bounds all of it, by the defaults below where nothing is set. \
`headwater doctor` shows what is set and where it comes from; with `--json`, \
every value.

## Where a value comes from

1. The default, below.
2. The project's file: `headwater.toml`, or `pyproject.toml` with the same tables below \
`tool.headwater`, as `[tool.headwater.policy]`. One of the two, in the project folder itself; folders \
above are not looked into.
3. The environment, which is the user's and may set everything. `budget.steps` is \
`HEADWATER_BUDGET_STEPS`; `HEADWATER_WINDOW` is short for `HEADWATER_POLICY_WINDOW`. `none` stands for \
None and `inf` for no bound; an empty variable counts as not set.

A project's file comes with the project, perhaps from a stranger. So it may make a run smaller, never \
dearer:

'''


def page() -> str:
    """The whole page, Markdown."""
    return "".join([_HEAD, *(f"- {rule}\n" for rule in _rules()), *_memory(), *map(_section, SECTIONS)])


def _rules() -> Iterator[str]:
    yield (
        f"It may only lower {_codes(sorted(LOWER))}, against the environment or else the default; "
        "`policy.window` against the model's window where the environment sets none. Its lower value then "
        "holds."
    )
    yield f"It may only raise {_codes(sorted(HIGHER))}: at lower prices `budget.cost` would buy more."
    yield (f"It may not name {_codes(sorted(USERS))} at all: models and endpoints are the user's to choose.")
    yield "Its `memory` stays inside the project folder, also once links are followed."
    yield "What breaks a rule, and what is misspelt, is refused with file, key, value and what to do."


def _memory() -> Iterator[str]:
    yield "\n## Memory\n\n| key | default | what it is |\n|---|---|---|\n"
    text = f"The memory folder, from the project folder on; `{variable('memory')}`."
    yield f"| `memory` | `{MEMORY}` | {text} |\n"


def _section(name: str) -> str:
    made = SECTIONS[name]
    before, rows, after = _described(made)
    defaults = {field.name: field.default for field in fields(made)}
    missing = set(defaults) - {key for keys, _ in rows for key in keys}
    if missing:
        raise ValueError(f"{made.__name__} does not describe {sorted(missing)!r}; add them to its Attributes")
    lines = [f"\n## {name}\n\n`{made.__name__}`: {before}\n\n| key | default | what it is |\n"]
    lines.append("|---|---|---|\n")
    for keys, text in rows:
        shown = ", ".join(f"`{_shown(defaults[key])}`" for key in keys)
        lines.append(f"| {_codes([f'{name}.{key}' for key in keys])} | {shown} | {text} |\n")
    return "".join(lines) + (f"\n{after}\n" if after else "")


def _described(made: type[Any]) -> tuple[str, list[tuple[list[str], str]], str]:
    """What the docstring says before its Attributes, the attributes with their texts, and what follows."""
    before, _, rest = cleandoc(made.__doc__ or "").partition("Attributes:\n")
    block = re.match(r"(?:[ ]{4}.*\n?|\n(?=[ ]{4}))*", rest)
    body = block[0] if block else ""
    rows = []
    for entry in re.split(r"^[ ]{4}(?=\S)", body, flags=re.M)[1:]:
        names, _, text = entry.partition(":")
        rows.append(([name.strip() for name in names.split(",")], " ".join(text.split()).replace("|", "\\|")))
    return " ".join(before.split()), rows, " ".join(rest[len(body) :].split())


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return str(value)
    return f"{value:,}"


def _codes(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main(argv: list[str]) -> int:
    """Write the page to the path that is given; without one, print it."""
    if argv:
        Path(argv[0]).write_text(page(), "utf-8")
    else:
        print(page(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
