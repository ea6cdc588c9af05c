"""`headwater doctor`: what Headwater works with here, what it has learned, and what to do."""

import argparse

from headwater.cli_kit import FAILED, OK, add_json, add_language, add_memory, show_json, tokens


def arguments(parser: argparse.ArgumentParser) -> None:
    """What to look at."""
    parser.description = (
        "What Headwater works with here, what it has learned of models, whether its stores are sound, and "
        "what to do about each finding. Changes nothing. Exit code 0 when all is well, 1 when something "
        "needs doing, 2 for a mistake in the call."
    )
    parser.add_argument(
        "--model",
        metavar="PROVIDER:NAME",
        help="the model to look up; where its key is set it is sent one small request",
    )
    parser.add_argument("--no-request", action="store_true", help="send nothing")
    parser.add_argument("--window", type=tokens, metavar="N", help="a window set by hand, tokens")
    add_memory(parser)
    add_json(parser)
    add_language(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was found, and below each finding what to do about it."""
    from headwater.doctor import as_json, examine, lines_of, look_at_settings
    from headwater.settings import Settings

    settings = Settings.load(model=args.model)
    memory, ask = args.memory or settings.memory, not args.no_request
    findings = examine(args.model, args.window, memory, args.lang, policy=settings.policy, request=ask)
    findings.append(look_at_settings(settings, args.lang))
    if args.json:
        show_json(as_json(findings))
    else:
        print("\n".join(lines_of(findings)))
    return OK if all(finding.healthy for finding in findings) else FAILED
