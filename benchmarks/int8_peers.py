"""Time quantised networks against ONNX Runtime and OpenVINO, each on the faster of two quantisers' files, in turns.

python benchmarks/int8_peers.py MODEL.onnx|NETWORK … [--cpu znver4] [--threads 1] [--records DIR] [--quantised DIR]

Each network is quantised as `quantize:` does it, by NNCF and by ONNX Runtime, on inputs drawn from its ranges: these
hardly change its times, but do change its answers. Ours is built from NNCF's file, `quantize:`'s default, by rule, or
with the records of --records; a network that comes quantised is used as it is. Quantised files are kept in --quantised,
and taken from there. Every package's numbers are checked. "Limit": all operations
at four times the peak of float32, which AVX512-VNNI and AVX-VNNI have. "Error": the largest difference between the
quantised network and the float one, over the largest output. Needs an otherwise idle machine, `tvmbuild[quantize]` and
`tvmbuild[openvino]`.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import onnx
from network_files import find_inputs
from tuner_contestants import Setting, build_recorded, run_in_child, simplify_model, time_loads
from variants import SAMPLES, check_package, describe, make_parser, open_settings

from tvmbuild.base.quantize_specs import Calibration, Quantize
from tvmbuild.base.specs import Tolerance
from tvmbuild.benchmarking.estimates import geometric_mean
from tvmbuild.devices.local.peak import measure_peak
from tvmbuild.devices.model_worker import Load, start_worker
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import TensorInfo
from tvmbuild.preparing.onnx_graph import find_precision
from tvmbuild.preparing.reference import make_inputs, read_reference, write_reference

METHODS = ("nncf", "onnxruntime")
"""The quantisers; our package is built from the first one's file."""
CALIBRATED = 8
"""The number of input sets for calibration."""
COLUMNS = ("tvmbuild", "ONNX Runtime", "OpenVINO", "tvmbuild float32", "ONNX Runtime float32")
"""The columns: int8, each on its faster file, then floats."""


VNNI = 4
"""The products of bytes in the time of one float32 product."""


@dataclass(frozen=True)
class Measured:
    """A network's median ms by column, the change of its outputs by quantising, and its number of operations."""

    times: dict[str, float]
    error: float | None
    flops: int

    @property
    def of_peers(self) -> float:
        """Return the time over that of the faster peer."""
        return self.times["tvmbuild"] / min(self.times[name] for name in COLUMNS[1:3] if name in self.times)

    @property
    def of_floats(self) -> float | None:
        """Return the time over that of the float network; None for a network that came quantised."""
        floats = self.times.get("tvmbuild float32")
        return None if floats is None else self.times["tvmbuild"] / floats


def main() -> int:
    """Run the comparison and print it as a table in Markdown."""
    parser = make_parser(__doc__, "znver4")
    parser.add_argument("--records", type=Path, help="for the target of which ours is built; none: by rule")
    parser.add_argument("--quantised", type=Path, help="keeps NETWORK/nncf and NETWORK/onnxruntime")
    args = parser.parse_args()
    columns = [*(f"{name} ms" for name in COLUMNS), "of the better peer", "of our float32", "limit ms", "error"]
    print(f"| model | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 1) + "|", flush=True)
    found = []
    for setting in open_settings(args):
        peak = measure_peak(setting.threads)
        found.append(_measure(replace(setting, records=args.records), args.quantised or setting.folder / "quantised"))
        print(_make_row(setting.model.stem, found[-1], peak.gflops), flush=True)
    floats = [each.of_floats for each in found if each.of_floats is not None]
    means = [
        f"{geometric_mean(ratios):.2f}" if ratios else "" for ratios in ([each.of_peers for each in found], floats)
    ]
    print(f"| geometric mean |{' |' * len(COLUMNS)} {' | '.join(means)} | | |")
    print(
        f"{describe(setting)}, {args.records or 'no records'}; peak {peak.gflops:.0f} GFLOP/s of float32",
        file=sys.stderr,
    )
    return 0


def _make_row(name: str, found: Measured, peak: float) -> str:
    cells = [f"{found.times[column]:.2f}" if column in found.times else "" for column in COLUMNS]
    cells += [f"{found.of_peers:.2f}", "" if found.of_floats is None else f"{found.of_floats:.2f}"]
    cells += [f"{found.flops / peak / VNNI / 1e6:.2f}", "" if found.error is None else f"{found.error:.1%}"]
    return f"| {name} | {' | '.join(cells)} |"


def _measure(setting: Setting, quantised: Path) -> Measured:
    run_in_child(simplify_model, setting)
    files = {"as it comes": setting}
    if find_precision(onnx.load(str(setting.folder / "model.onnx"))) != "int8":
        files = {method: replace(setting, folder=setting.folder / method) for method in METHODS}
        for method, each in files.items():
            kept = quantised / setting.model.stem / method
            if not (kept / "error.json").exists():
                kept.mkdir(parents=True, exist_ok=True)
                run_in_child(_quantise, setting, method, kept)
            shutil.copytree(kept, each.folder)
    own, *_ = files
    run_in_child(_count_flops, files[own])
    loads = {"tvmbuild": _build(files[own])}
    for method, each in files.items():
        for peer in ("onnxruntime", "openvino"):
            load = _load(peer, each)
            loads |= {f"{peer} {method}": load} if _runs(load, f"{setting.model.stem}, {method}") else {}
    if len(files) > 1:
        loads |= {"tvmbuild float32": _build(setting), "ONNX Runtime float32": _load("onnxruntime", setting)}
    times = time_loads(loads, SAMPLES)
    for name, peer in (("ONNX Runtime", "onnxruntime"), ("OpenVINO", "openvino")):
        of_files = [times[f"{peer} {method}"] for method in files if f"{peer} {method}" in times]
        times |= {name: min(of_files)} if of_files else {}
    noted = [files[own].folder / name for name in ("error.json", "flops.json")]
    error, flops = (json.loads(path.read_text()) if path.exists() else None for path in noted)
    return Measured(times, error, flops or 0)


def _count_flops(setting: Setting) -> None:
    """Write the number of operations in the network's Tasks."""
    from tvmbuild.compiler.importing.importer import import_onnx  # noqa: PLC0415 - in its own process
    from tvmbuild.compiler.machine.target import host_target  # noqa: PLC0415
    from tvmbuild.compiler.operators import count_flops  # noqa: PLC0415
    from tvmbuild.compiler.pipeline import lower  # noqa: PLC0415
    from tvmbuild.compiler.tasks import extract_tasks  # noqa: PLC0415

    tasks = extract_tasks(lower(import_onnx(setting.folder / "model.onnx"), host_target(setting.cpu)))
    flops = sum((count_flops(task.mod["main"]) or 0) * task.weight for task in tasks)
    (setting.folder / "flops.json").write_text(json.dumps(flops))


def _load(runtime: str, setting: Setting) -> Load:
    return Load(runtime, setting.folder / "model.onnx", setting.folder / "reference.npz", setting.threads)


def _runs(load: Load, name: str) -> bool:
    """Return whether a peer can run its file; if not, print the reason on standard error."""
    try:
        with start_worker(load):
            return True
    except TvmbuildError as error:
        print(f"{name}: {load.runtime}: {error.message}", file=sys.stderr)
        return False


def _build(setting: Setting) -> Load:
    package = setting.folder / "package.tar"
    run_in_child(build_recorded, setting, package)
    load = Load("tvm", package, setting.folder / "reference.npz", setting.threads)
    check_package(load, Tolerance(2e-3, 2e-3), f"{setting.model.name}, {package.parent.name}")
    return load


def _quantise(setting: Setting, method: str, folder: Path) -> None:
    """Write the quantised simplified model, and its outputs."""
    from tvmbuild.preparing.quantise import FloatModel, quantise  # noqa: PLC0415 - in its own process

    reference = read_reference(setting.folder / "reference.npz")
    infos = [TensorInfo(name, value.shape, str(value.dtype)) for name, value in reference.inputs.items()]
    specs = find_inputs(setting.model.stem)
    samples = [make_inputs(infos, specs, seed) for seed in range(CALIBRATED)]
    options = Quantize(Calibration("inputs", ()), "nncf" if method == "nncf" else "onnxruntime")
    made = quantise(
        FloatModel((setting.folder / "model.onnx").read_bytes(), reference, setting.model.name), options, samples
    )
    (folder / "model.onnx").write_bytes(made.model)
    write_reference(folder / "reference.npz", made.reference)
    (folder / "error.json").write_text(json.dumps(made.error))


if __name__ == "__main__":
    sys.exit(main())
