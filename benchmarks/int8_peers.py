"""Quantised networks by rule, beside ONNX Runtime and OpenVINO on the quicker of two quantisers' files, in turns.

python benchmarks/int8_peers.py MODEL.onnx|NETWORK … [--cpu znver4] [--threads 1]

Each network is quantised as `quantize:` does it, by NNCF and by ONNX Runtime, on inputs drawn from its ranges: what its
times are depends on that little, what it answers much. Ours is built of NNCF's file, `quantize:`'s default, without any
record; a network that comes quantised is taken as it is. Every package's numbers are checked. Wants a machine that does
nothing else, `tvmbuild[quantize]` and `tvmbuild[openvino]`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import onnx
from network_files import find_inputs
from tuner_contestants import Setting, compile_with, run_in_child, simplify_model, time_loads
from variants import SAMPLES, check_package, describe, open_settings

from tvmbuild.base.quantize_specs import Calibration, Quantize
from tvmbuild.base.specs import Tolerance
from tvmbuild.benchmarking.estimates import geometric_mean
from tvmbuild.devices.model_worker import Load
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.preparing.onnx_graph import find_precision
from tvmbuild.preparing.reference import make_inputs, read_reference, write_reference
from tvmbuild.records.schedule import Schedule

METHODS = ("nncf", "onnxruntime")
"""The first is what ours is built of."""
CALIBRATED = 8
"""Sets of inputs."""
COLUMNS = ("tvmbuild", "ONNX Runtime", "OpenVINO", "tvmbuild float32", "ONNX Runtime float32")
"""int8, each on the file that suits it best, and floats."""


def main() -> int:
    """Run the comparison and print it as a table in Markdown."""
    print("| model | " + " | ".join(f"{name} ms" for name in COLUMNS) + " | of the better peer | of our float32 |")
    print("|---" * (len(COLUMNS) + 3) + "|", flush=True)
    of_peers, of_floats = [], []
    for setting in open_settings(__doc__, "znver4"):
        times = _time_all(setting)
        of_peers.append(times["tvmbuild"] / min(times["ONNX Runtime"], times["OpenVINO"]))
        floats = times.get("tvmbuild float32")
        of_floats += [] if floats is None else [times["tvmbuild"] / floats]
        shown = [f"{times[name]:.2f}" if name in times else "" for name in COLUMNS]
        shown += [f"{of_peers[-1]:.2f}", "" if floats is None else f"{of_floats[-1]:.2f}"]
        print(f"| {setting.model.stem} | {' | '.join(shown)} |", flush=True)
    means = [f"{geometric_mean(ratios):.2f}" if ratios else "" for ratios in (of_peers, of_floats)]
    print(f"| geometric mean |{' |' * len(COLUMNS)} {' | '.join(means)} |")
    print(f"{describe(setting)}, no records", file=sys.stderr)
    return 0


def _time_all(setting: Setting) -> dict[str, float]:
    """Return the median ms of each column that the network has."""
    run_in_child(simplify_model, setting)
    files = {"as it comes": setting}
    if find_precision(onnx.load(str(setting.folder / "model.onnx"))) != "int8":
        files = {method: replace(setting, folder=setting.folder / method) for method in METHODS}
        for method, each in files.items():
            each.folder.mkdir()
            run_in_child(_quantise, setting, method, each.folder)
    own, *_ = files
    loads = {"tvmbuild": _build(files[own])}
    for method, each in files.items():
        for peer in ("onnxruntime", "openvino"):
            loads[f"{peer} {method}"] = _load(peer, each)
    if len(files) > 1:
        loads |= {"tvmbuild float32": _build(setting), "ONNX Runtime float32": _load("onnxruntime", setting)}
    times = time_loads(loads, SAMPLES)
    for name, peer in (("ONNX Runtime", "onnxruntime"), ("OpenVINO", "openvino")):
        times[name] = min(times[f"{peer} {method}"] for method in files)
    return times


def _load(runtime: str, setting: Setting) -> Load:
    return Load(runtime, setting.folder / "model.onnx", setting.folder / "reference.npz", setting.threads)


def _build(setting: Setting) -> Load:
    package = setting.folder / "package.tar"
    run_in_child(compile_with, setting, Schedule(), package)
    load = Load("tvm", package, setting.folder / "reference.npz", setting.threads)
    check_package(load, Tolerance(2e-3, 2e-3), f"{setting.model.name}, {package.parent.name}")
    return load


def _quantise(setting: Setting, method: str, folder: Path) -> None:
    """Write the simplified model quantised, and what it computes."""
    from tvmbuild.preparing.quantise import quantise  # noqa: PLC0415 - in a process of its own

    reference = read_reference(setting.folder / "reference.npz")
    infos = [TensorInfo(name, value.shape, str(value.dtype)) for name, value in reference.inputs.items()]
    specs = find_inputs(setting.model.stem)
    samples = [make_inputs(infos, specs, seed) for seed in range(CALIBRATED)]
    options = Quantize(Calibration("inputs", ()), "nncf" if method == "nncf" else "onnxruntime")
    made = quantise((setting.folder / "model.onnx").read_bytes(), reference, options, samples, setting.model.name)
    (folder / "model.onnx").write_bytes(made.model)
    write_reference(folder / "reference.npz", made.reference)


if __name__ == "__main__":
    sys.exit(main())
