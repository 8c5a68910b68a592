"""What `tvmbuild run` runs on: the inputs."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.inputs import check_inputs, make_inputs, read_arrays, read_input
from tvmbuild.package.metadata import PackageInfo


def named_file(text: str) -> tuple[str, Path]:
    """Return the parts of NAME=FILE; a name may hold no `=`."""
    name, separator, file = text.partition("=")
    if not (name and separator and file):
        raise argparse.ArgumentTypeError(f"{text} is not NAME=FILE")
    return name, Path(file)


def collect_inputs(info: PackageInfo, args: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return the arrays of --inputs or --fill, those of --input in their place; TvmbuildError when they do not fit.

    Without --fill, inputs are made up only where none is given at all.
    """
    inputs: dict[str, np.ndarray] = {}
    if args.inputs:
        inputs = read_arrays(args.inputs)
    elif args.fill or not args.files:
        inputs = make_inputs(info.inputs, args.fill or "random", args.seed)
    given: set[str] = set()
    for name, path in args.files:
        if name in given:
            raise TvmbuildError(f"--input {name} is given twice")
        given.add(name)
        inputs[name] = read_input(info, name, path)
    check_inputs(info, inputs)
    return inputs
