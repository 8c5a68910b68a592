"""Argument types that several commands use."""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any


def positive(text: str) -> int:
    """Parse a positive integer. Raises ValueError or ArgumentTypeError, which argparse reports, for other texts."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not over 0")
    return value


positive.__name__ = "positive integer"  # shown in argparse's message


def address(text: str) -> str:
    """Return the text if it has the form host:port. Otherwise raise ArgumentTypeError."""
    host, separator, port = text.rpartition(":")
    if not (host and separator and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text} is not HOST:PORT")
    return text


address.__name__ = "HOST:PORT"


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that correspond to `inputs:` in models.yaml."""
    parser.add_argument(
        "--shape",
        dest="shapes",
        type=named_shape,
        action="append",
        default=[],
        metavar="NAME=1,3,224,224",
        help="fix an open input's shape, in all models that have the input; repeatable",
    )
    parser.add_argument(
        "--value",
        dest="values",
        type=named_value,
        action="append",
        default=[],
        metavar="NAME=16000",
        help="make an input a constant, a number or JSON's lists of numbers; repeatable",
    )


def named_shape(text: str) -> tuple[str, list[int]]:
    """Parse NAME=1,3,224,224 into an input's name and its shape."""
    name, _, sizes = text.partition("=")
    try:
        shape = [int(size) for size in sizes.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=1,3,224,224") from None
    if not name or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=1,3,224,224")
    return name, shape


def named_value(text: str) -> tuple[str, str]:
    """Parse NAME=16000 into an input's name and its constant value, as JSON."""
    name, _, value = text.partition("=")
    try:
        json.loads(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=16000") from None
    return name, value


def named_values(text: str) -> dict[str, int]:
    """Parse T=64 or H=320,W=640 into the values of letters."""
    values: dict[str, int] = {}
    for part in text.split(","):
        letter, _, value = part.strip().partition("=")
        if not letter or not (value.isascii() and value.isdecimal()) or int(value) < 1 or letter in values:
            raise argparse.ArgumentTypeError(f"{text!r} is not T=64 or H=320,W=640")
        values[letter] = int(value)
    return values


class ActionParser(argparse.ArgumentParser):
    """A parser for one action of a command. It imports the action's ``module`` only when it is used.

    git starts the merge driver once for each file, so imports for other actions would be slow.
    """

    module = ""

    def fill(self) -> None:
        """Add the action's arguments, unless they were added before."""
        module, self.module = self.module, ""
        if module:
            importlib.import_module(module).add_arguments(self)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Add the action's arguments, then parse ``args``."""
        self.fill()
        return super().parse_known_args(args, namespace)


def add_actions(parser: argparse.ArgumentParser, actions: Mapping[str, tuple[str, str]]) -> None:
    """Add a parser for each action of a command.

    ``actions`` maps its name to its module, which has ``add_arguments`` and ``run``, and its help.
    """
    added = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=ActionParser)
    for name, (module, text) in actions.items():
        added.add_parser(name, help=text, description=text).module = module
