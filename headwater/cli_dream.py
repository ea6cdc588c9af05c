"""`headwater dream`: look after memory now, or in its hours; report it; take it back."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli_kit import FAILED, OK, add_json, add_memory, memory_folder, show_json, tokens, word

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from headwater.memory.dream_change import Report
    from headwater.memory.dreamer import Dreamer
    from headwater.memory.memory import Memory

_TASKS = (
    "consolidate, verify, archive-stale, improve, maintain-docs, user_memories (only when named, or with "
    "--profile), pin_key_files"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, where, and when."""
    parser.description = f"{parser.description} Tasks: {_TASKS}. A run that was cut short goes on."
    parser.add_argument("--task", metavar="TASK", help="only this task, whatever its switch says")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, say what would be changed")
    parser.add_argument("--now", action="store_true", help="whatever the hours say")
    parser.add_argument("--undo", metavar="RUN", help="take back all that a run has changed")
    parser.add_argument("--list", action="store_true", help="the runs so far, newest first")
    parser.add_argument("--hours", default="02:00-06:00", metavar="H-H", help="local time (%(default)s)")
    parser.add_argument("--model", metavar="PROVIDER:NAME", help="asked where judgement is needed; none else")
    parser.add_argument("--budget", type=tokens, default=100_000, metavar="N", help="tokens a run (100,000)")
    parser.add_argument("--project", type=Path, default=Path(), metavar="DIR", help="its files (here)")
    add_memory(parser)
    parser.add_argument("--tenant", type=word, default="default", metavar="NAME", help="whose memory")
    parser.add_argument("--of", type=word, default="default", metavar="NAME", help="which project's memory")
    parser.add_argument("--off", action="append", default=[], metavar="TASK", help="switch a task off")
    parser.add_argument("--profile", action="store_true", help="also learn what the user likes")
    parser.add_argument(
        "--all-sessions", action="store_true", help="read every session of the folder: it is one person's"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Dream, and print what was done and why.

    Returns:
        FAILED where another process dreams, or an undo had to leave something.
    """
    from headwater.memory import Memory

    with (
        Memory(memory_folder(args), tenant=args.tenant, project=args.of) as memory,
        _dreamer(args, memory) as dreamer,
    ):
        if args.list:
            reports = dreamer.reports()
            if args.json:
                show_json([report.to_dict() for report in reports])
            else:
                print("\n".join(_line(report) for report in reports) or "no dream yet")
            return OK
        if args.undo is not None:
            report = dreamer.undo(args.undo)
        else:
            report = dreamer.dream(args.task, now=args.now, dry_run=args.dry_run)
    if args.json:
        show_json(report.to_dict())
    else:
        print(report.text())
    left = report.outcome == "undone" and any(entry.state == "applied" for entry in report.entries)
    return FAILED if report.outcome == "busy" or left else OK


@contextmanager
def _dreamer(args: argparse.Namespace, memory: "Memory") -> "Iterator[Dreamer]":
    from rich.console import Console

    from headwater.memory import Dreamer

    with Console(stderr=True, quiet=not sys.stderr.isatty()).status("dreaming …") as status:
        dreamer = Dreamer(
            memory,
            args.project,
            model=_model(args.model),
            tasks={**({"user_memories": True} if args.profile else {}), **dict.fromkeys(args.off, False)},
            hours=args.hours,
            budget=args.budget,
            sessions=memory.archive.sessions() if args.all_sessions else None,
            progress=lambda word: status.update(f"dreaming … {word}"),
        )
        try:
            yield dreamer
        finally:
            dreamer.close()


def _model(name: str | None) -> "BaseChatModel | None":
    if name is None:
        return None
    from headwater.real_model import chosen_model

    return chosen_model(name)


def _line(report: "Report") -> str:
    from datetime import datetime

    when = datetime.fromtimestamp(report.started).astimezone()
    return f"{report.run}  {when:%Y-%m-%d %H:%M}  {report.outcome:<7} {report.changed:>4} changes"
