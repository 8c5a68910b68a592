"""The command `tvmbuild schema`: print the JSON Schema of a YAML file, or the keys of one of its parts."""

from __future__ import annotations

import argparse
import sys

from tvmbuild.config.key_table import format_text, list_parts
from tvmbuild.config.schema import SCHEMAS, schema_text
from tvmbuild.errors import TvmbuildError

HELP = "print the JSON Schema of models.yaml or targets.yaml, or the keys of a part"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", choices=sorted(SCHEMAS), help="which file's schema")
    parser.add_argument("part", nargs="?", help="print the keys of this part instead, for example `tune` or `boxes`")


def run(args: argparse.Namespace) -> int:
    """Print the schema, or a part's keys; return the exit code."""
    parts = list_parts(args.file)
    if args.part is not None and args.part not in parts:
        raise TvmbuildError(f"{args.file}.yaml has no part {args.part}", hint=f"Its parts are {', '.join(parts)}.")
    sys.stdout.write(schema_text(args.file) if args.part is None else format_text(args.file, args.part))
    return 0
