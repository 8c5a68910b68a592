"""Shell completion through argcomplete: commands, their options, the project's steps, models and targets.

`eval "$(register-python-argcomplete tvmbuild)"` in the shell's startup file turns completion on.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import argcomplete

from tvmbuild.base.steps import AnyStep, Settings
from tvmbuild.cli.arguments import ActionParser
from tvmbuild.doit_adapter.variables import VARIABLES
from tvmbuild.errors import TvmbuildError
from tvmbuild.planning.project import find_root, load_plan

DOIT_COMMANDS = ("clean", "forget", "help", "ignore", "info", "list")


def answer(commands: dict[str, str]) -> None:
    """Write the completions of the shell's present line, and end the process."""
    argcomplete.autocomplete(make_parser(os.environ["COMP_LINE"], commands), always_complete_options=False)


def make_parser(line: str, commands: dict[str, str]) -> argparse.ArgumentParser:
    """Return a parser, with completers, of the command that the line names.

    If the line names no command of ``commands``, the parser completes commands, steps and variables.
    """
    parser = argparse.ArgumentParser(prog="tvmbuild")
    words = line.split(" ")
    if len(words) > 2 and (module := commands.get(words[1])):
        of_command = parser.add_subparsers().add_parser(words[1])
        importlib.import_module(module).add_arguments(of_command)
        _add_completers(of_command)
        return parser
    first = () if len(words) > 2 else (*commands, *DOIT_COMMANDS)
    _complete(parser.add_argument("words", nargs="*"), lambda: (*first, *_list_steps(), *_list_variables()))
    return parser


def _add_completers(parser: argparse.ArgumentParser) -> None:
    """Add completers to positional arguments that name something of the project, by the word in NAMED."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list of them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for each in action.choices.values():
                if isinstance(each, ActionParser):
                    each.fill()
                _add_completers(each)
        elif not action.option_strings and action.choices is None:
            shown = str(action.metavar or action.dest.upper()).partition("|")[0]
            if found := NAMED.get(shown):
                _complete(action, found)


def _complete(action: argparse.Action, list_words: Callable[[], tuple[str, ...]]) -> None:
    action.completer = lambda **_: list_words()  # type: ignore[attr-defined] # argcomplete's own attribute


def _list_steps() -> tuple[str, ...]:
    steps = list(_read_steps())
    return (*dict.fromkeys(step.stage for step in steps), *(step.id for step in steps))


def _list_cells() -> tuple[str, ...]:
    return tuple(step.subject for step in _read_steps() if step.stage == "compile")


def _list_targets() -> tuple[str, ...]:
    return tuple(dict.fromkeys(cell.partition("@")[2] for cell in _list_cells()))


def _list_variables() -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, values in VARIABLES.items() for value in values)


def _read_steps() -> Iterator[AnyStep]:
    """Yield the steps of the project around the current folder, or none if no project can be loaded."""
    try:
        yield from load_plan(find_root(Path.cwd()), Settings()).steps
    except TvmbuildError:
        return


NAMED: dict[str, Callable[[], tuple[str, ...]]] = {
    "CELL": _list_cells,
    "NAME": _list_targets,
    "PATTERN": _list_steps,
    "STEP": _list_steps,
    "TARGET": _list_targets,
    "tune=…": _list_variables,
}
"""The word for an argument in the help → the function that lists possible values of the argument."""
