"""`headwater demo`: an agent explores a large code base under a small window, and is checked."""

import argparse
from pathlib import Path

from headwater.cli_kit import Misuse, add_language, console, positive, tokens


def arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the window and the length of the run."""
    parser.description = (
        f"{parser.description} Needs no key and no network; takes about a minute. "
        "Exit code 0 when every check at the end holds, 1 when one does not, 2 for a mistake in the call."
    )
    parser.add_argument(
        "--model", metavar="PROVIDER:NAME", help="a real model, e.g. openai:gpt-5.4 (costs money)"
    )
    parser.add_argument(
        "--window", type=tokens, default=32_000, metavar="N", help="tokens (default: %(default)s)"
    )
    parser.add_argument(
        "--steps", type=positive, default=360, metavar="N", help="model calls (default: %(default)s)"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="leave everything in this new or empty folder"
    )
    add_language(parser)


def run(args: argparse.Namespace) -> int:
    """Run the demo."""
    from headwater.demo import Options, run_demo
    from headwater.nodes.engine import WindowTooSmall
    from headwater.real_model import client_errors
    from headwater.window.policy import PolicyError

    options = Options(args.model, args.window, args.lang, args.keep, args.steps)
    try:
        return run_demo(options, console())
    except client_errors() as error:
        if args.model is None:
            raise
        told = f"{type(error).__name__}: {error}"
        raise Misuse(
            f"{args.model!r} did not answer: {told} Check the network, the key and the endpoint's address; "
            f"headwater doctor --model {args.model} sends one small request",
            f"{args.model!r} 没有回答：{told} 请检查网络、密钥和服务地址；"
            f"headwater doctor --model {args.model} --lang zh 会发送一个小请求",
        ) from error
    except (PolicyError, WindowTooSmall) as error:
        chinese = (
            f"窗口 {args.window:,} 太小，放不下智能体的任何一步；请用 --window 设大一些，例如 --window 32k"
        )
        raise Misuse(str(error), chinese) from error
