"""The command `memory`: see, edit, carry and forget long-term facts."""

import argparse
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.cli_kit import FAILED, OK, add_memory, console, memory_folder, positive, word

if TYPE_CHECKING:
    from rich.console import Console

    from headwater.memory import Fact, Memory

_TIMES = ("created", "valid_from")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    common = argparse.ArgumentParser(add_help=False)
    add_memory(common)
    common.add_argument("--tenant", type=word, default="default", help="whose facts (default)")
    common.add_argument("--project", type=word, default="default", help="of which project (default)")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, says: str) -> Any:
        return actions.add_parser(name, help=says, description=says + ".", parents=[common])

    listed = action("list", "facts, oldest first")
    listed.add_argument("--category")
    listed.add_argument("--all", action="store_true", help="archived ones too")
    listed.add_argument("--json", action="store_true", help="one JSON object a line")
    searched = action("search", "facts that answer a query, best first")
    searched.add_argument("query")
    searched.add_argument("-k", type=positive, default=10, metavar="N", help="at most (10)")
    action("show", "all that is known about one fact").add_argument("id")
    edit = action("edit", "change a fact; other words for another matter take its place and archive it")
    edit.add_argument("id")
    edit.add_argument("content", nargs="?")
    edit.add_argument("--importance", type=int, metavar="1-100")
    edit.add_argument("--status", choices=("active", "permanent", "archived"))
    for name, says in (
        ("export", "write facts as one .md file a category"),
        ("import", "take in such files, edited or new"),
    ):
        action(name, says).add_argument(
            "folder", type=Path, nargs="?", default=Path("memory"), help="(memory/)"
        )
    forget = action("forget", "remove a fact for good, from the store, the indexes and exported files")
    forget.add_argument("id")
    forget.add_argument(
        "--sessions", action="store_true",
        help="also erase, from the archive, the session it came from and all that hold its words",
    )  # fmt: skip
    forget.add_argument("--exports", type=Path, default=Path("memory"), metavar="DIR", help="(memory/)")


def run(args: argparse.Namespace) -> int:
    """Run one action; 0, or 1 where an import refused something.

    Raises:
        Misuse, FactRefused, UnknownFact, NotesError, StorageError: The user's to mend.
    """
    from headwater.memory import Memory

    root = memory_folder(args, new=args.action == "import")
    with Memory(root, tenant=args.tenant, project=args.project) as memory:
        done: int = globals()[f"_{args.action}"](args, memory, console())
        return done


def _list(args: argparse.Namespace, memory: "Memory", out: "Console") -> int:
    facts = memory.facts.list(category=args.category, live=not args.all, limit=10_000_000)
    if args.json:
        for fact in facts:
            print(json.dumps(fact.to_value(), ensure_ascii=False))
    else:
        _print(facts, out)
    return OK


def _search(args: argparse.Namespace, memory: "Memory", out: "Console") -> int:
    found = memory.facts.search(args.query, args.k)
    memory.facts.uses.count("found", [fact.id for fact, _ in found])
    _print([fact for fact, _ in found], out)
    return OK


def _show(args: argparse.Namespace, memory: "Memory", out: "Console") -> int:
    for name, value in memory.facts.get(args.id).to_value().items():
        shown = datetime.fromtimestamp(value).isoformat(" ", "seconds") if name in _TIMES else value
        out.print(f"{name:14} {shown}", markup=False, highlight=False)
    use = memory.facts.uses.of(args.id)
    last = datetime.fromtimestamp(use.last_found).isoformat(" ", "seconds") if use.found else "never"
    for name, shown in (("found", use.found), ("last found", last), ("recalled", use.recalled)):
        out.print(f"{name:14} {shown}", markup=False, highlight=False)
    return OK


def _edit(args: argparse.Namespace, memory: "Memory", out: "Console") -> int:
    fact = memory.facts.get(args.id)
    if args.content is not None:
        fact = memory.facts.supersede(fact.id, args.content, trust="user")
    wanted = {"importance": args.importance, "status": args.status}
    changed = replace(fact, **{name: value for name, value in wanted.items() if value is not None})
    if changed != fact:
        memory.facts.restore(changed)
    _print([changed], out)
    return OK


def _export(args: argparse.Namespace, memory: "Memory", out: "Console") -> int:
    from headwater.memory.notes import export_facts

    out.print(f"{export_facts(memory.facts, args.folder):,} facts written to {args.folder}", markup=False)
    return OK


def _import(args: argparse.Namespace, memory: "Memory", out: "Console") -> int:
    from headwater.memory.notes import import_facts

    done = import_facts(memory.facts, args.folder)
    out.print(f"{done.new:,} new, {done.changed:,} changed, {done.same:,} as they were", markup=False)
    for reason in done.refused:
        out.print(f"refused: {reason}", markup=False, highlight=False)
    return FAILED if done.refused else OK


def _forget(args: argparse.Namespace, memory: "Memory", out: "Console") -> int:
    from headwater.memory.erase import forget_fact

    gone = forget_fact(memory, args.id, sessions=args.sessions, exports=args.exports)
    out.print(f"forgotten: {gone.content}", markup=False, highlight=False)
    for session in gone.sessions:
        out.print(f"erased from the archive: session {session}", markup=False, highlight=False)
    return OK


def _print(facts: list["Fact"], out: "Console") -> None:
    from rich.table import Table

    if not facts:
        out.print("no facts")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("category", no_wrap=True)
    table.add_column("fact")
    for fact in facts:
        note = "" if fact.status == "active" else f" ({fact.status})"
        text = fact.content.replace("[", "\\[")
        table.add_row(fact.id, str(fact.category), text + note)
    out.print(table)
