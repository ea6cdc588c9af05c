"""The table of docs/events.md, made from the types: `python -m headwater.nodes.event_table FILE`."""

import sys
from pathlib import Path
from typing import Annotated, Any, NotRequired, get_args, get_origin, get_type_hints

from headwater.nodes.event_types import types

BEGIN, END = "<!-- made by headwater.nodes.event_table -->", "<!-- end -->"


def event_table() -> str:
    """Markdown: a heading for each event, when it is sent, and its fields."""
    return "\n".join(_event(name, kind) for name, kind in types().items())


def written(page: str) -> str:
    """A page with the table between its two marks.

    Raises:
        ValueError: The page has no such marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {BEGIN!r} and {END!r} around the table")
    return f"{before}{BEGIN}\n{event_table()}\n{END}{after}"


def _event(name: str, kind: type) -> str:
    hints = get_type_hints(kind, include_extras=True)
    rows = [_row(field, hint, field not in kind.__required_keys__) for field, hint in hints.items()]  # type: ignore[attr-defined]
    head = f"### `{name}`\n\n{kind.__doc__}\n\n| field | type | |\n|---|---|---|\n"
    return head + "\n".join(row for row in rows if row) + "\n"


def _row(field: str, hint: Any, optional: bool) -> str:
    if field == "type":
        return ""
    remarks = ["may be absent"] if optional else []
    while (origin := get_origin(hint)) is Annotated or origin is NotRequired:
        if origin is Annotated:
            remarks = [*map(str, hint.__metadata__), *remarks]
        hint = get_args(hint)[0]
    return f"| `{field}` | `{_name(hint)}` | {'; '.join(remarks)} |"


def _name(hint: Any) -> str:
    if str(get_origin(hint)) == "typing.Literal":
        return " \\| ".join(repr(value) for value in get_args(hint)).replace("'", '"')
    shown = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
    return shown.replace("typing.", "").replace("|", "\\|")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(written(path.read_text("utf-8")), "utf-8")
