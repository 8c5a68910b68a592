"""What `tvmbuild run` runs on: the inputs and the device."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from tvmbuild.errors import TvmbuildError
from tvmbuild.nearest import find_nearest, suggest
from tvmbuild.package.inputs import check_inputs, make_inputs, read_arrays, read_input
from tvmbuild.package.metadata import PackageInfo

DEVICES = ("local",)
"""Of the kinds of devices in targets.yaml, those that packages run on by this command."""
_LATER = ("rpc", "qemu")


def named_file(text: str) -> tuple[str, Path]:
    """Return the parts of NAME=FILE; a name may hold no `=`."""
    name, separator, file = text.partition("=")
    if not (name and separator and file):
        raise argparse.ArgumentTypeError(f"{text} is not NAME=FILE")
    return name, Path(file)


def check_device(device: str) -> None:
    """Raise TvmbuildError for a device that this command does not run packages on."""
    if device in DEVICES:
        return
    if device in _LATER:
        raise TvmbuildError(
            f"--device {device}: packages do not run on {device} devices yet",
            "copy the package to the device and run it there, with --device local",
        )
    suggestion = suggest(find_nearest(device, DEVICES))
    raise TvmbuildError(f"--device {device}: no such device", f"{suggestion}There is {', '.join(DEVICES)}")


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
