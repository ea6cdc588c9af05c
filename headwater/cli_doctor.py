"""`headwater doctor`: what Headwater works with here."""

import argparse
from pathlib import Path

from headwater.cli_kit import FAILED, OK, add_language, positive


def arguments(parser: argparse.ArgumentParser) -> None:
    """What to look at."""
    parser.add_argument("--model", metavar="NAME", help="the model whose window to look up")
    parser.add_argument("--window", type=positive, metavar="N", help="a window set by hand, tokens")
    parser.add_argument(
        "--memory", type=Path, default=Path(".headwater"), metavar="DIR", help="default: %(default)s"
    )
    add_language(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was found, a line each."""
    from headwater.doctor import examine

    findings = examine(args.model, args.window, args.memory, args.lang)
    for finding in findings:
        print(f"{'✓' if finding.healthy else '✗'} {finding.text}")
    return OK if all(finding.healthy for finding in findings) else FAILED
