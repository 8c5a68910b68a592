"""Networks as they are and quantised, both without any record, beside ONNX Runtime on the same files, in turns.

python benchmarks/quantised.py MODEL.onnx|NETWORK … [--cpu znver4] [--threads 1]

Each network is quantised by ONNX Runtime (QDQ, uint8 activations, int8 weights for each channel) on inputs drawn from
its ranges: what its times are depends on that little, what it answers much. Every package's numbers are checked. Wants
a machine that does nothing else.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx.version_converter
from network_files import find_inputs
from tuner_contestants import Setting, compile_with, run_in_child, simplify_model, time_loads
from variants import SAMPLES, describe, open_settings

from tvmbuild.base.specs import Tolerance
from tvmbuild.benchmarking.estimates import geometric_mean
from tvmbuild.devices.model_worker import Load, start_worker
from tvmbuild.preparing.compare import compare
from tvmbuild.preparing.reference import make_inputs, read_reference
from tvmbuild.records.schedule import Schedule

OPSET = 13
CALIBRATED = 8
"""Sets of inputs."""
COLUMNS = ("int8", "ONNX Runtime int8", "float32", "ONNX Runtime float32")


def main() -> int:
    """Run the comparison and print it as a table in Markdown."""
    print("| model | " + " | ".join(f"{name} ms" for name in COLUMNS) + " | int8 / ONNX Runtime's | int8 / float32 |")
    print("|---" * (len(COLUMNS) + 3) + "|", flush=True)
    ratios = []
    for setting in open_settings(__doc__, "znver4"):
        times = _time_both(setting)
        ratios.append((times[COLUMNS[0]] / times[COLUMNS[1]], times[COLUMNS[0]] / times[COLUMNS[2]]))
        shown = [f"{times[name]:.2f}" for name in COLUMNS] + [f"{ratio:.2f}" for ratio in ratios[-1]]
        print(f"| {setting.model.stem} | {' | '.join(shown)} |", flush=True)
    means = [f"{geometric_mean(list(column)):.2f}" for column in zip(*ratios, strict=True)]
    print(f"| geometric mean |{' |' * len(COLUMNS)} {' | '.join(means)} |")
    print(f"{describe(setting)}, no records", file=sys.stderr)
    return 0


def _time_both(setting: Setting) -> dict[str, float]:
    run_in_child(simplify_model, setting)
    with TemporaryDirectory() as folder:
        whole = setting.folder / "model.onnx"
        quantised = replace(setting, model=Path(folder) / whole.name, folder=Path(folder) / "made")
        quantised.folder.mkdir()
        run_in_child(_quantise, setting, quantised.model)
        run_in_child(simplify_model, quantised)
        loads = {}
        for name, each in (("int8", quantised), ("float32", setting)):
            package, reference = each.folder / "package.tar", each.folder / "reference.npz"
            run_in_child(compile_with, each, Schedule(), package)
            loads[name] = Load("tvm", package, reference, each.threads)
            loads[f"ONNX Runtime {name}"] = Load("onnxruntime", each.folder / "model.onnx", reference, each.threads)
            _check(loads[name])
        return time_loads(loads, SAMPLES)


def _check(load: Load) -> None:
    wanted = read_reference(load.reference)
    with start_worker(load) as worker:
        problem = compare(worker.outputs(), wanted.outputs, wanted.allow(Tolerance(2e-3, 2e-3))).problem
    if problem is not None:
        sys.exit(f"{load.model}: {problem}")


def _quantise(setting: Setting, path: Path) -> None:
    """Write the simplified model, quantised."""
    from onnxruntime import quantization  # noqa: PLC0415 - in a process of its own

    from tvmbuild.package.metadata import TensorInfo  # noqa: PLC0415
    from tvmbuild.preparing.onnx_graph import load_model  # noqa: PLC0415

    logging.disable()
    model = load_model(setting.folder / "model.onnx", setting.model.name)
    if model.opset_import[0].version < OPSET:  # before it scales are of whole tensors
        model = onnx.version_converter.convert_version(model, OPSET)
    tensors = read_reference(setting.folder / "reference.npz").inputs
    infos = [TensorInfo(name, value.shape, str(value.dtype)) for name, value in tensors.items()]

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            specs = find_inputs(setting.model.stem)
            self._left: Iterator[dict[str, np.ndarray]] = (
                make_inputs(infos, specs, seed) for seed in range(CALIBRATED)
            )

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self._left, None)

    quantization.quantize_static(
        model,
        str(path),
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
    )


if __name__ == "__main__":
    sys.exit(main())
