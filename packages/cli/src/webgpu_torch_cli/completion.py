"""``webgpu-torch completion``: what makes a shell complete the command line, from its parser."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator

#: the command; its options with their choices; the names that its first word may have
Command = tuple[str, dict[str, tuple[str, ...]], tuple[str, ...]]


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    groups = (each.choices for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return dict(next(groups, {}))


def _described(parser: argparse.ArgumentParser) -> Iterator[Command]:
    for name, command in _commands(parser).items():
        options, words = dict[str, tuple[str, ...]](), tuple(_commands(command))
        for inner in (command, *_commands(command).values()):
            for action in inner._actions:
                choices = tuple(map(str, action.choices or ()))
                options |= {each: choices for each in action.option_strings if each.startswith("--")}
                if not action.option_strings and not isinstance(action, argparse._SubParsersAction):
                    words += choices
        yield name, options, words


def bash(parser: argparse.ArgumentParser) -> str:
    """Return the script for bash; where it knows nothing, file names are completed."""
    lines = [
        "_webgpu_torch() {",
        "    local current=${COMP_WORDS[COMP_CWORD]} words=",
        '    case "$COMP_CWORD ${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD-1]} $current" in',
        f"        1\\ *) words={shlex.quote(' '.join(_commands(parser)))} ;;",
    ]
    for name, options, words in _described(parser):
        for option, choices in options.items():
            if choices:
                lines.append(f"        *\\ {name}\\ {option}\\ *) words={shlex.quote(' '.join(choices))} ;;")
        lines.append(f"        *\\ {name}\\ *\\ -*) words={shlex.quote(' '.join(options))} ;;")
        if words:
            lines.append(f"        2\\ {name}\\ *) words={shlex.quote(' '.join(words))} ;;")
    lines += [
        "    esac",
        '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "}",
        "complete -o default -F _webgpu_torch webgpu-torch",
    ]
    return "\n".join(lines) + "\n"


def zsh(parser: argparse.ArgumentParser) -> str:
    """Return the script for zsh, which takes bash's."""
    return "autoload -U +X bashcompinit && bashcompinit\n" + bash(parser)


def fish(parser: argparse.ArgumentParser) -> str:
    """Return the script for fish."""
    lines = []
    for name, options, words in _described(parser):
        lines.append(f"complete -c webgpu-torch -n __fish_use_subcommand -a {name}")
        inside = f"complete -c webgpu-torch -n '__fish_seen_subcommand_from {name}'"
        for option, choices in options.items():
            given = f" -x -a {shlex.quote(' '.join(choices))}" if choices else ""
            lines.append(f"{inside} -l {option.removeprefix('--')}{given}")
        lines += [f"{inside} -a {shlex.quote(' '.join(words))}"] if words else []
    return "\n".join(lines) + "\n"


#: shell -> what prints its script
SHELLS: dict[str, Callable[[argparse.ArgumentParser], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
