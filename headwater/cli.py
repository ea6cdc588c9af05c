"""The command line. Mistakes of its user end in one clear line, never in a traceback.

A command is a module `headwater/cli_NAME.py` (see `cli_kit.Command`) and a line in `COMMANDS`.
"""

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn, cast

from headwater.cli_kit import FAILED, INTERRUPTED, MISUSED, OK, Command, Misuse, trouble

__all__ = ["COMMANDS", "FAILED", "INTERRUPTED", "MISUSED", "OK", "main", "parser_for"]

_ABOUT = "LangGraph agents whose sessions outlive their context window"

COMMANDS = {
    "demo": "watch an agent explore a code base many times larger than its window, and see it checked",
    "doctor": "what Headwater works with here and has learned, whether its stores are sound, and what to do",
    "inspect": "name what a recorded session's window did to it: diseases, cache faults, waste",
    "replay": "play recorded sessions under policies, and compare what they cost and kept",
    "dream": "look after long-term memory: tidy, check against files, archive, document; undo it again",
    "memory": "list, search, show, edit, export, import and forget long-term facts",
    "completion": "print a completion script for your shell",
}

_EXITS = (
    "Exit codes: 0 all is well, 1 something that was looked at is not, 2 a mistake in the call, 130 "
    "interrupted. Each command explains itself with --help."
)
# Where the mistakes of a user are named; only what has been imported can have been raised.
_MISTAKES = (
    ("headwater.demo", "FolderInUse"),
    ("headwater.graph.build", "UnknownModel"),
    ("headwater.memory.database", "StorageError"),
    ("headwater.memory.dream_change", "DreamError"),
    ("headwater.memory.fact", "FactRefused"),
    ("headwater.memory.facts", "UnknownFact"),
    ("headwater.memory.notes", "NotesError"),
    ("headwater.nodes.agent", "OverflowUnresolved"),
    ("headwater.nodes.engine", "WindowTooSmall"),
    ("headwater.real_model", "ModelUnavailable"),
    ("headwater.settings", "SettingsError"),
    ("headwater.window.policy", "PolicyError"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        0 when all is well, 1 when a check does not hold, 2 for a mistake in what was asked for.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Closed by who called: there is nobody to tell, the exit code still tells.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - till the end
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # A terminal that cannot show a sign gets a question mark and no crash.
            reconfigure(errors="replace")
    words = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in words if not word.startswith("-")), None)
    try:
        return _run(command, words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has gone; nothing more can be said to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILED


def parser_for(name: str | None) -> argparse.ArgumentParser:
    """The parser of one command, the others named only; without a name, of the whole."""
    parser, found = _parser(name)
    return found or parser


def _run(name: str | None, words: Sequence[str]) -> int:
    args = _parser(name)[0].parse_args(words)
    try:
        return _command(args.command).run(args)
    except _mistakes() as error:
        return _refuse(error, args)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] == "headwater":
            raise
        return _refuse(Misuse(f"{args.command} needs {error.name!r}; pip install 'headwater[lab]'"), args)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        return _refuse(trouble(error), args)


class _Parser(argparse.ArgumentParser):
    """A parser that says what was probably meant."""

    def error(self, message: str) -> NoReturn:
        if "invalid choice: " in message and "COMMAND" in message:
            asked = message.split("invalid choice: ", 1)[1].split("'")[1]
            near = difflib.get_close_matches(asked, COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(COMMANDS)}"
            message = f"{asked!r} is no command; {hint}"
        super().error(message)


def _parser(name: str | None) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser | None]:
    parser = _Parser("headwater", description=_ABOUT, epilog=_EXITS)
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    found = None
    for known, says in COMMANDS.items():
        made = commands.add_parser(known, help=says, description=f"{says[0].upper()}{says[1:]}.")
        if known == name:
            found = made
            _command(known).arguments(made)
    return parser, found


def _command(name: str) -> Command:
    return cast(Command, import_module(f"headwater.cli_{name}"))


def _mistakes() -> tuple[type[Exception], ...]:
    found = (getattr(sys.modules.get(module), name, None) for module, name in _MISTAKES)
    return (Misuse, *(error for error in found if error is not None))


def _refuse(error: Exception, args: argparse.Namespace) -> int:
    chinese = getattr(error, "chinese", "") if getattr(args, "lang", "en") == "zh" else ""
    text = chinese or str(error)
    print(f"headwater: {text}", file=sys.stderr)
    return MISUSED


def _version() -> str:
    from headwater import __version__

    return f"headwater {__version__}"
