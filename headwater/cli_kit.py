"""What every command of the command line shares: exit codes, mistakes, options, and ways to print."""

import argparse
import errno
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


class Misuse(Exception):
    """A mistake of whoever called a command; its text says what to do instead.

    Any mistake may have `chinese`, the same for who asked for `--lang zh`.
    """

    def __init__(self, text: str, chinese: str = "") -> None:
        super().__init__(text)
        self.chinese = chinese


# What an operating system's refusal means to who typed the command, and what to do.
_TROUBLE = {
    errno.ENOENT: ("{0} is not there; check the path", "{0} 不存在；请检查路径"),
    errno.EISDIR: ("{0} is a folder; name a file", "{0} 是一个目录；请给出文件"),
    errno.ENOTDIR: (
        "{0} leads through a file as if it were a folder; check the path",
        "{0} 把文件当成了目录；请检查路径",
    ),
    errno.EACCES: (
        "{0} may not be read or written by this user; check its owner and mode",
        "当前用户不能读写 {0}；请检查它的所有者和权限",
    ),
    errno.EROFS: (
        "{0} is on a disk that cannot be written; name another place",
        "{0} 所在的磁盘只读；请换一个位置",
    ),
    errno.ENOSPC: (
        "no space is left to write {0}; free some and run again",
        "没有空间写入 {0}；请腾出空间后重试",
    ),
}


def trouble(error: OSError) -> Misuse:
    """What the operating system refused, in words."""
    english, chinese = _TROUBLE.get(error.errno or 0, (f"{type(error).__name__}: {error}", ""))
    name = repr(str(error.filename)) if error.filename is not None else "the output"
    return Misuse(english.format(name), chinese.format(name.replace("the output", "输出")))


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


def share(text: str) -> float:
    """A number from 0 to 1, as an option's type."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; give a number from 0 to 1")
    return number


def word(text: str) -> str:
    """A name that is not empty, as an option's type."""
    if not text.strip():
        raise argparse.ArgumentTypeError("a name cannot be empty")
    return text


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
    if not new and not any(folder.glob("*.sqlite")):
        # To look into it would leave files there.
        raise Misuse(f"{str(folder)!r} holds no memory; name the folder that does with --memory")
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
