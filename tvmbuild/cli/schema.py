"""The command `tvmbuild schema`: print the JSON Schema of a YAML file."""

from __future__ import annotations

import argparse
import sys

from tvmbuild.config.schema import SCHEMAS, schema_text

HELP = "print the JSON Schema of models.yaml or targets.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", choices=sorted(SCHEMAS), help="which file's schema")


def run(args: argparse.Namespace) -> int:
    """Print the schema; return the exit code."""
    sys.stdout.write(schema_text(args.file))
    return 0
