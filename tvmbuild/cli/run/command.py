"""The command `tvmbuild run`: run a package and print its outputs, its latency, and the time of each operator."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tvmbuild import load
from tvmbuild.base.console import make_console
from tvmbuild.base.files import write_json
from tvmbuild.base.host_cpu import available_cores
from tvmbuild.base.progress import progress_shown_by
from tvmbuild.base.size_specs import Size
from tvmbuild.base.source_specs import MODEL_SUFFIXES
from tvmbuild.cli.arguments import named_values, positive
from tvmbuild.cli.run.camera import run_camera
from tvmbuild.cli.run.frames import add_frame_arguments, run_frame
from tvmbuild.cli.run.measure import Measurement, Taken, add_profile, choose_peak, measure_latency
from tvmbuild.cli.run.output import (
    print_latency,
    print_memory,
    print_outputs,
    print_profile,
    print_ranking,
    profile_json,
)
from tvmbuild.devices.device import Device
from tvmbuild.devices.model_worker import Load
from tvmbuild.devices.table import list_forms, open_device, read_device
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import is_pack, read_metadata
from tvmbuild.package.inputs import check_inputs, make_inputs, read_arrays, read_input, write_arrays
from tvmbuild.package.metadata import PackageInfo, default_threads

HELP = "run a package, and print its outputs, its latency or the time of each operator"


def add_input(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the file of one input, for `collect_inputs`."""
    parser.add_argument(
        "--input",
        dest="files",
        type=named_file,
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="one input: .npy, or a .png or .jpg by the package's preprocessing; repeatable",
    )


def add_size(parser: argparse.ArgumentParser) -> None:
    """Add the argument that chooses a size of a package whose shapes vary, for `collect_inputs`."""
    parser.add_argument(
        "--size",
        type=named_values,
        metavar="T=64",
        help="the inputs' size in a package with `sizes` (default: the largest); several letters as H=320,W=640",
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "To build, leave `run` out: `tvmbuild STEP`."
    parser.add_argument(
        "package", metavar="PACKAGE.tar", help="the package or pack; no project and no YAML file is needed"
    )
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument("--inputs", type=Path, metavar="FILE.npz", help="the inputs by name, or a reference.npz")
    inputs.add_argument(
        "--fill",
        choices=("random", "ones", "zeros"),
        help="generated inputs; random: [-1, 1) for floats, 0 for integers, which may be indices (the default)",
    )
    add_input(parser)
    add_size(parser)
    parser.add_argument("--seed", type=int, default=0, help="the seed of random inputs")
    parser.add_argument("--output", type=Path, metavar="FILE.npz", help="write the outputs by name")
    parser.add_argument("--print-top", type=positive, metavar="N", help="the N likeliest classes, with the labels")
    parser.add_argument("--device", default="local", metavar="DEVICE", help=f"where it runs: {', '.join(list_forms())}")
    parser.add_argument("--print-time", action="store_true", help="measure the latency")
    parser.add_argument(
        "--repeat", type=positive, metavar="N", help="the number of samples; default: 50, fewer for a slow model"
    )
    parser.add_argument("--number", type=positive, default=1, metavar="M", help="calls in a sample (default: 1)")
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="threads of one call; default: the target's num-cores, at most this process's cores",
    )
    parser.add_argument("--memory", action="store_true", help="show the package's memory, and the process's peak")
    parser.add_argument("--profile", action="store_true", help="show the time of each operator")
    add_frame_arguments(parser)
    parser.add_argument("--profile-json", type=Path, metavar="FILE", help="write what --profile shows")


def run(args: argparse.Namespace) -> int:
    """Run the package once, then do the requested measurements. Return the exit code."""
    if args.frame is not None or args.camera is not None:
        _refuse_others(args)
        show = run_camera if args.frame is None else run_frame
        show(make_console(), _read_info(args.package), args)
        return 0
    of_frames = args.draw or args.json or args.encoding or args.frames or (args.score, args.overlap) != (None, None)
    if of_frames:
        raise TvmbuildError(
            "--draw, --json, --encoding, --score, --overlap and --frames belong to --frame and --camera",
            "add --frame FILE",
        )
    device = find_device(args.device)
    check_wishes(device, args)
    info = _read_info(args.package)
    inputs = collect_inputs(info, args)
    with progress_shown_by(lambda text: print(text, file=sys.stderr)):
        outputs, measurement, taken = _run(args, device, info, inputs)
    console = make_console()
    print_outputs(console, f"{info.model}{_describe_size(info, inputs)} for {info.target.name}", outputs)
    if args.memory:
        print_memory(console, info, taken)
    if args.print_top:
        print_ranking(console, info, outputs, args.print_top)
    if args.output:
        write_arrays(args.output, outputs)
    if measurement is not None:
        print_latency(console, measurement)
        if args.profile:
            print_profile(console, _read_size(info, inputs), measurement)
        for warning in measurement.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        if args.profile_json:
            _write_profile(args.profile_json, profile_json(info, measurement, _find_size(info, inputs)))
    return 0


def _refuse_others(args: argparse.Namespace) -> None:
    """Raise TvmbuildError if an option cannot be combined with --frame or --camera."""
    asked = "--camera" if args.frame is None else "--frame"
    others = ("frames", "camera") if args.frame is not None else ("encoding",)
    given = ("inputs", "fill", "output", "print_top", "print_time", "repeat", "memory", "profile", "profile_json")
    for name in (*given, *others):
        if getattr(args, name):
            option = f"--{name.replace('_', '-')}"
            raise TvmbuildError(f"{option} cannot be combined with {asked}", f"leave {option} out")


def _write_profile(path: Path, profile: dict[str, object]) -> None:
    try:
        write_json(path, profile)
    except OSError as error:
        raise TvmbuildError(f"{path} cannot be written: {error.strerror or error}") from error


def _read_info(package: str) -> PackageInfo:
    """Return the package's description; of a pack, that of the package that `tvmbuild.load` chooses."""
    if is_pack(Path(package)):
        with load(package, 1) as session:
            for path, reason in session.passed_over.items():
                print(f"passed over {path}: {reason}", file=sys.stderr)
            return session.info
    try:
        return read_metadata(Path(package))
    except TvmbuildError as error:
        if Path(package).exists() or package.endswith(".tar"):
            raise
        build = f"tvmbuild compile {package}" if Path(package).suffix in MODEL_SUFFIXES else f"tvmbuild {package}"
        raise TvmbuildError(f"{package}: no such package", f"`{build}` builds it.") from error


def _run(
    args: argparse.Namespace, device: Device, info: PackageInfo, inputs: dict[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], Measurement | None, Taken]:
    profile = bool(args.profile or args.profile_json)
    with TemporaryDirectory(prefix="tvmbuild-run-") as folder:
        reference = Path(folder, "inputs.npz")
        write_arrays(reference, {f"input:{name}": value for name, value in inputs.items()})
        threads = args.threads or choose_threads(device, info)
        with device.start(Load("tvm", Path(args.package), reference, threads)) as worker:
            of_call = worker.call_memory() if args.memory and device.tells_call_memory(info) else None
            outputs = worker.outputs()
            taken = Taken(of_call, worker.peak_memory_mb() if args.memory else None)
            if not (args.print_time or profile):
                return outputs, None, taken
            with device.hold(exclusive=True):
                measurement = measure_latency(device, worker, args.number, args.repeat)
                if profile:
                    measurement = add_profile(worker, measurement, choose_peak(device, info, worker.threads))
            return outputs, measurement, taken


# The device that `tvmbuild run` runs a package on: --device.

_MANY_CORES = 1024


def find_device(text: str) -> Device:
    """Return the device that ``--device`` names. Raises TvmbuildError for an unknown one."""
    return open_device(read_device(text))


def check_wishes(device: Device, args: argparse.Namespace) -> None:
    """Raise TvmbuildError if ``args`` request a measurement that this device cannot do."""
    if device.emulated and (args.print_time or args.profile or args.profile_json):
        raise TvmbuildError(f"{device.name} gives no meaningful times", "leave --print-time and --profile out")
    if not device.is_this_machine and is_pack(Path(args.package)):
        raise TvmbuildError(
            f"{args.package} is a pack, from which only this machine can choose", f"name a package for {device.name}"
        )
    if not device.profiles and (args.profile or args.profile_json):
        raise TvmbuildError(
            f"{device.name} gives no times of operators, because it has no Python",
            "leave --profile out; --print-time works",
        )


def choose_threads(device: Device, info: PackageInfo) -> int:
    """Return the number of cores that the package was tuned for, at most as many as exist here.

    Another device has no limit here, because a board reports itself if it has fewer cores.
    """
    return default_threads(info, available_cores() if device.here else _MANY_CORES)


# The inputs of `tvmbuild run`.


def named_file(text: str) -> tuple[str, Path]:
    """Parse NAME=FILE into an input's name, which may hold no `=`, and a path."""
    name, separator, file = text.partition("=")
    if not (name and separator and file):
        raise argparse.ArgumentTypeError(f"{text} is not NAME=FILE")
    return name, Path(file)


def collect_inputs(info: PackageInfo, args: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return the arrays of ``--inputs`` or ``--fill``. The arrays of ``--input`` replace those of the same name.

    They have the size of ``--size``, or by default generated ones have the largest. Without ``--fill``, inputs are made
    up only if no input is given at all. Raises TvmbuildError if the arrays do not fit the package, or if the package
    does not take this size.
    """
    if args.size:
        info = info.at_values(args.size)
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
    check_inputs(_read_size(info, inputs), inputs)
    return inputs


def _describe_size(info: PackageInfo, inputs: dict[str, np.ndarray]) -> str:
    """Return the size of the inputs in words, if the package has sizes."""
    sizes = info.sizes
    return f" at {sizes.plan(_shapes(inputs), info.model).describe()}" if sizes else ""


def _find_size(info: PackageInfo, inputs: dict[str, np.ndarray]) -> Size | None:
    """Return the size of the inputs, or None if the package has one shape."""
    return None if info.sizes is None else info.sizes.plan(_shapes(inputs), info.model).size


def _read_size(info: PackageInfo, inputs: dict[str, np.ndarray]) -> PackageInfo:
    """Return the package's description at the size of the inputs, which may lie between two sizes of the package."""
    sizes = info.sizes
    if sizes is None or not inputs.keys() >= sizes.inputs.keys():
        return info
    return info.at_inputs(_shapes(inputs))


def _shapes(inputs: dict[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: value.shape for name, value in inputs.items()}
