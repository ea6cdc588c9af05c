"""`headwater completion`: a script that teaches a shell the commands and their options."""

import argparse
from typing import NamedTuple

from headwater.cli_kit import OK

_INSTALL = """Add to the shell's start-up file:
  bash  ~/.bashrc                      eval "$(headwater completion bash)"
  zsh   ~/.zshrc, after compinit       eval "$(headwater completion zsh)"
  fish  ~/.config/fish/config.fish     headwater completion fish | source"""


class Option(NamedTuple):
    """An option as a shell completes it; `choices` are words, `path` asks the shell for files."""

    names: tuple[str, ...]
    help: str
    choices: tuple[str, ...]
    path: bool
    takes: bool


Known = dict[str, tuple[str, list[Option]]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.epilog = _INSTALL
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from headwater.cli import COMMANDS, parser_for

    known: Known = {}
    for name, says in COMMANDS.items():
        known[name] = (says, options_of(parser_for(name)))
    print({"bash": bash, "zsh": zsh, "fish": fish}[args.shell](known), end="")
    return OK


def options_of(parser: argparse.ArgumentParser) -> list[Option]:
    """What a parser takes, positional words as an option without a name."""
    from pathlib import Path

    found = []
    for action in parser._actions:
        choices = tuple(map(str, action.choices)) if action.choices else ()
        takes = action.nargs != 0
        names = tuple(action.option_strings)
        text = (action.help or "").replace("%(default)s", str(action.default))
        found.append(Option(names, text, choices, action.type is Path, takes))
    return found


def bash(known: Known) -> str:
    """For bash: choices after an option that has them, files where it takes a path, else the options."""
    cases, values = [], []
    for name, (_, options) in known.items():
        words = [n for o in options for n in o.names] + [c for o in options if not o.names for c in o.choices]
        cases.append(f"    {name}) words={' '.join(words)!r} ;;")
        for option in options:
            for flag in option.names if option.takes else ():
                reply = (
                    f'$(compgen -W {" ".join(option.choices)!r} -- "$cur")'
                    if option.choices
                    else '$(compgen -f -- "$cur")'
                    if option.path
                    else ""
                )
                values.append(f"    {name}:{flag}) COMPREPLY=({reply}); return ;;")
    return f"""_headwater() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}"
  local words
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{" ".join(known)} --help --version' -- "$cur")); return
  fi
  case "$command:$prev" in
{chr(10).join(values)}
  esac
  case "$command" in
{chr(10).join(cases)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o filenames -F _headwater headwater
"""


def zsh(known: Known) -> str:
    """For zsh, through its `_arguments`."""
    names = " ".join(_quoted(f"{name}:{_plain(says)}") for name, (says, _) in known.items())
    cases = []
    for name, (_, options) in known.items():
        specs = []
        for option in options:
            value = (
                f":value:({' '.join(option.choices)})"
                if option.choices
                else ":file:_files"
                if option.path
                else ":value:"
            )
            for flag in option.names:
                specs.append(_quoted(f"{flag}[{_plain(option.help)}]{value if option.takes else ''}"))
            if not option.names:
                specs.append(_quoted(f"1{value}"))
        cases.append(f"      {name}) _arguments {' '.join(specs)} ;;")
    return f"""_headwater() {{
  local -a commands
  commands=({names})
  if (( CURRENT == 2 )); then
    _describe command commands
  else
    local command=$words[2]
    shift words; (( CURRENT-- ))
    case $command in
{chr(10).join(cases)}
    esac
  fi
}}
compdef _headwater headwater
"""


def fish(known: Known) -> str:
    """For fish, one `complete` a word."""
    lines = ["complete -c headwater -f"]
    for name, (says, options) in known.items():
        first = f"complete -c headwater -n __fish_use_subcommand -a {name}"
        lines.append(f"{first} -d {_quoted(_plain(says))}")
        where = f"complete -c headwater -n '__fish_seen_subcommand_from {name}'"
        for option in options:
            choices = f" -a {_quoted(' '.join(option.choices))}" if option.choices else ""
            flags = "".join(f" -l {n[2:]}" if n.startswith("--") else f" -s {n[1:]}" for n in option.names)
            takes = (" -r -F" if option.path else " -x") if option.takes and option.names else ""
            lines.append(f"{where}{flags}{takes}{choices} -d {_quoted(_plain(option.help))}")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Text without the signs that the shells' descriptions give a meaning."""
    return "".join(" " if sign in "[]:'\"\\$`" else sign for sign in text)


def _quoted(text: str) -> str:
    return f"'{text}'"
