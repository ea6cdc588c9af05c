"""What every command of the command line shares: exit codes, mistakes, options, and ways to print."""

import argparse
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


class Misuse(Exception):
    """A mistake of whoever called a command; its text says what to do instead."""


class Command(Protocol):
    """A module `headwater/cli_NAME.py`: one command. It is imported when it is called, and for completion."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own options; `parser.description` may be set as well."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it.

        Returns:
            OK, or FAILED when what was asked for is not as it should be.

        Raises:
            Misuse: What was asked for cannot be done as it was asked.
        """


def positive(text: str) -> int:
    """A whole number above 0, as an option's type; "32_000" and "32,000" are read as well."""
    try:
        number = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return number


def tokens(text: str) -> int:
    """A number of tokens above 0, as an option's type: 32000, 32_000, 32,000 or 32k."""
    plain = text.strip().lower().replace("_", "").replace(",", "")
    scale = {"k": 1_000, "m": 1_000_000}.get(plain[-1:], 1)
    try:
        exact = Decimal(plain.rstrip("km")) * scale
        number = int(exact) if exact == int(exact) else 0
    except (ValueError, ArithmeticError):
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of tokens, e.g. 32000 or 32k")
    return number


def add_language(parser: argparse.ArgumentParser) -> None:
    """`--lang`."""
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of what is printed")


def add_memory(parser: argparse.ArgumentParser) -> None:
    """`--memory`; None where it is not given, see `memory_folder`."""
    parser.add_argument(
        "--memory", type=Path, metavar="DIR", help="default: what the settings say, else .headwater"
    )


def memory_folder(args: argparse.Namespace, *, new: bool = False) -> Path:
    """The folder that `--memory` names, else the settings'; one that is not there only where it may be `new`.

    Raises:
        Misuse: It is not there.
        SettingsError: The settings cannot be read.
    """
    from headwater.settings import memory_of

    folder: Path = args.memory or memory_of()
    if not new and not folder.is_dir():
        raise Misuse(f"no memory folder at {str(folder)!r}; name it with --memory")
    return folder


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`, for scripts; print its answer with `show_json`."""
    parser.add_argument("--json", action="store_true", help="print one JSON document, for scripts")


def show_json(value: Any) -> None:
    """Print one JSON document, as UTF-8 text where the terminal can show it."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def console() -> "Console":
    """Where tables and bars are drawn."""
    from rich.console import Console

    # Rich takes 80 columns where there is no terminal, too few for the tables.
    return Console() if sys.stdout.isatty() else Console(width=110)
