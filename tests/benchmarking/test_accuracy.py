"""Package and original model on real inputs: how samples are read, and what is counted."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from benchmark_results import make_result
from PIL import Image
from report_cells import cell_steps, only, write_built
from small_package import build_package

from tvmbuild.base.device_specs import LocalDevice
from tvmbuild.base.files import write_json
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import Accuracy, BenchmarkOptions, Preprocess, Tolerance
from tvmbuild.base.steps import BenchmarkStep, Step
from tvmbuild.benchmarking.accuracy import compare_samples, make_judge
from tvmbuild.benchmarking.results import Agreement, read_result
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageCoverage, PackageInfo, PackageTarget, TensorInfo
from tvmbuild.package.samples import list_samples
from tvmbuild.report.html_page import write_html
from tvmbuild.report.text import write_markdown
from tvmbuild.stages.benchmark import make_trial

TENSORS = (TensorInfo("x", (2, 3), "float32"), TensorInfo("n", (1,), "int64"))
COVERAGE = PackageCoverage(0, 0)
INFO = PackageInfo("net", PackageTarget("pc", "llvm"), TENSORS, (), "lifted", COVERAGE, "NHWC")
NPZ = Accuracy("inputs", ("real.npz",))


def save(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def test_an_npz_is_cut_into_samples(tmp_path: Path) -> None:
    x = np.arange(18, dtype=np.float32).reshape(6, 3)
    path = save(tmp_path / "real.npz", x=x, n=np.arange(3))
    samples = list(list_samples(NPZ, [path], INFO))
    assert [sample["n"].tolist() for sample in samples] == [[0], [1], [2]]
    assert np.array_equal(np.concatenate([sample["x"] for sample in samples]), x)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((2, 3), np.float32)}, r"has not just the inputs of net: n"),
        (
            {"x": np.zeros((3, 3), np.float32), "n": np.zeros(1, int)},
            r"x is float32 \[3, 3\], no samples of float32 \[2",
        ),
        ({"x": np.zeros((2, 3)), "n": np.zeros(1, int)}, r"x is float64 \[2, 3\], no samples"),
        (
            {"x": np.zeros((4, 3), np.float32), "n": np.zeros(1, int)},
            r"not equally many samples of each input: \[1, 2\]",
        ),
    ],
)
def test_arrays_that_are_no_samples(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(TvmbuildError, match=message):
        list(list_samples(NPZ, [save(tmp_path / "real.npz", **arrays)], INFO))


def test_pictures_are_preprocessed_as_the_package_says(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4), (255, 0, 51)).save(tmp_path / "a.png")
    info = PackageInfo(
        "net",
        INFO.target,
        (TensorInfo("x", (1, 3, 2, 2), "float32"),),
        (),
        "lifted",
        COVERAGE,
        "NHWC",
        preprocess=Preprocess(),
    )
    (sample,) = list_samples(Accuracy("images", ("a.png",)), [tmp_path / "a.png"], info)
    assert sample["x"][0, :, 0, 0].tolist() == pytest.approx([1.0, 0.0, 0.2])


def test_agreement_is_of_the_first_output_and_the_error_of_all() -> None:
    samples = [{"x": np.array([value])} for value in (1.0, 2.0, 3.0)]

    def theirs(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": np.array([[0.0, inputs["x"][0], 2.5]]), "z": np.array([-40.0])}

    def ours(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": theirs(inputs)["y"] + np.array([[0.0, 0.6, 0.0]]), "z": np.array([-40.75])}

    assert compare_samples(iter(samples), ours, theirs) == Agreement(3, 2, 0.75, 40.0)  # type: ignore[arg-type]


def test_no_samples_no_figure(tmp_path: Path) -> None:
    options = BenchmarkStep("pc", "llvm", LocalDevice(), 2, Tolerance(), BenchmarkOptions())
    files = FrozenMap({role: tmp_path / role for role in ("package", "model", "reference")})
    assert make_trial(Step("benchmark", "net@pc", options, files, root=tmp_path)).judge is None


def test_the_report_shows_it_for_cells_that_have_it(tmp_path: Path) -> None:
    layout, steps = Layout(tmp_path), cell_steps("net", "pc")
    write_built(layout, "net", "pc")
    value = make_result("net@pc").to_json()
    assert "accuracy" not in value
    value["accuracy"] = {"samples": 16, "agreeing": 15, "max_abs_error": 0.26, "largest": 19.8}
    result = read_result(value)
    assert result is not None
    assert result.to_json() == value
    write_json(layout.cell_file("net", "pc", "result.json"), value)
    line = "net@pc: same top-1 for 15 of 16 (93.8%), largest error 0.26 where outputs reach 19.8"
    assert line in write_markdown([only(tmp_path, steps)])
    assert line in write_html([only(tmp_path, steps)])


@pytest.mark.compiler
def test_a_package_agrees_with_the_model_it_was_made_of(tmp_path: Path, digits: Path) -> None:
    from tvmbuild.package.runtime.session import Session

    os.environ["TVM_NUM_THREADS"] = "2"
    (tensor,) = onnxruntime.InferenceSession(str(digits)).get_inputs()
    pictures = np.random.RandomState(0).uniform(0, 255, (5, *tensor.shape[1:])).astype(np.float32)
    package, samples = build_package(digits, tmp_path), save(tmp_path / "real.npz", **{tensor.name: pictures})
    judge = make_judge(NPZ, package, digits.read_bytes(), [samples])
    with Session(package) as session:
        found = judge(session.run)
    assert (found.samples, found.agreeing) == (5, 5)
    assert found.max_abs_error < 1e-4 * found.largest
