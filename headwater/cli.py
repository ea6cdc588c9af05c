"""The command line. Mistakes of its user end in one clear line, never in a traceback."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwater import cli_lab

if TYPE_CHECKING:
    from rich.console import Console

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130

_HELP = {
    "en": "LangGraph agents whose sessions outlive their context window",
    "demo": "watch an agent explore a code base many times larger than its window, and see it checked",
    "doctor": "what Headwater works with here: window, tokenizer, embeddings, memory folder",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        0 when all is well, 1 when a check does not hold, 2 for a mistake in what was asked for.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # A terminal that cannot show a sign gets a question mark and no crash.
            reconfigure(errors="replace")
    args = _parser().parse_args(argv)
    try:
        if args.command in cli_lab.HELP:
            return _lab(args)
        return _demo(args) if args.command == "demo" else _doctor(args)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has gone; nothing more can be said to them.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("headwater", description=_HELP["en"])
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help=_HELP["demo"],
        description=_HELP["demo"] + ". Needs no key and no network; takes about a minute. "
        "Exit code 0 when every check at the end holds, 1 when one does not, 2 for a mistake in the call.",
    )
    demo.add_argument(
        "--model", metavar="PROVIDER:NAME", help="a real model, e.g. openai:gpt-5.4 (costs money)"
    )
    demo.add_argument(
        "--window", type=_positive, default=32_000, metavar="N", help="tokens (default: %(default)s)"
    )
    demo.add_argument(
        "--steps", type=_positive, default=360, metavar="N", help="model calls (default: %(default)s)"
    )
    demo.add_argument("--keep", type=Path, metavar="DIR", help="leave everything in this new or empty folder")
    doctor = commands.add_parser("doctor", help=_HELP["doctor"], description=_HELP["doctor"] + ".")
    doctor.add_argument("--model", metavar="NAME", help="the model whose window to look up")
    doctor.add_argument("--window", type=_positive, metavar="N", help="a window set by hand, tokens")
    doctor.add_argument(
        "--memory", type=Path, default=Path(".headwater"), metavar="DIR", help="default: %(default)s"
    )
    cli_lab.add_commands(commands)
    for command in (demo, doctor):
        command.add_argument("--lang", choices=("en", "zh"), default="en", help="language of what is printed")
    return parser


def _demo(args: argparse.Namespace) -> int:
    from headwater.graph.build import UnknownModel
    from headwater.memory import StorageError
    from headwater.nodes.engine import WindowTooSmall
    from headwater.window.policy import PolicyError

    try:
        from headwater.demo import FolderInUse, Options, run_demo
        from headwater.demo_model import ModelUnavailable, client_errors
        from headwater.nodes.agent import OverflowUnresolved
    except ImportError as error:
        return _refuse(f"the demo needs {error.name!r}; pip install 'headwater[lab]'")
    options = Options(args.model, args.window, args.lang, args.keep, args.steps)
    mistakes = (FolderInUse, ModelUnavailable, UnknownModel, PolicyError, WindowTooSmall, OverflowUnresolved)
    try:
        return run_demo(options, _console())
    except (*mistakes, StorageError) as error:
        return _refuse(str(error))
    except ImportError as error:
        return _refuse(f"the demo needs {error.name!r}; pip install 'headwater[lab]'")
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        return _refuse(f"{type(error).__name__}: {error}")
    except client_errors() as error:
        if args.model is None:
            raise
        return _refuse(f"{args.model!r} did not answer: {type(error).__name__}: {error}")


def _lab(args: argparse.Namespace) -> int:
    try:
        mistakes = cli_lab.mistakes()
    except ImportError as error:
        return _refuse(f"{args.command} needs {error.name!r}; pip install 'headwater[lab]'")
    try:
        return cli_lab.run(args, _console())
    except BrokenPipeError:
        raise
    except mistakes as error:
        return _refuse(str(error))


def _doctor(args: argparse.Namespace) -> int:
    from headwater.doctor import examine

    findings = examine(args.model, args.window, args.memory, args.lang)
    for finding in findings:
        print(f"{'✓' if finding.healthy else '✗'} {finding.text}")
    return OK if all(finding.healthy for finding in findings) else FAILED


def _console() -> "Console":
    from rich.console import Console

    # Rich takes 80 columns where there is no terminal, too few for the table.
    return Console() if sys.stdout.isatty() else Console(width=110)


def _refuse(text: str) -> int:
    print(f"headwater: {text}", file=sys.stderr)
    return MISUSED


def _positive(text: str) -> int:
    try:
        number = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return number


def _version() -> str:
    from headwater import __version__

    return f"headwater {__version__}"
