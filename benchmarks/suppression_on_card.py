"""Time NonMaxSuppression alone on a card: build packages of it, then time them where the card is.

python benchmarks/suppression_on_card.py build FOLDER [--arch sm_90] [--driver 12.0]
python benchmarks/suppression_on_card.py time FOLDER [--repeat 100]

The forms are those of detectors: boxes of one row as ultralytics exports them, boxes of 80 classes, and a row of so
many boxes that they take several tiles. Boxes lie in a room in which many of them overlap. Prints, for each package,
how many boxes take part and are kept, and the median, in milliseconds, of calls whose inputs are on the card.
`time` needs TVM's runtime, but not its compiler.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tvmbuild
from tvmbuild.base.attributes import Attributes, AttributeValue
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.package.archive import write_package
from tvmbuild.package.metadata import PackageTarget
from tvmbuild.package.timing import time_calls, warm_up

SCORE, OVERLAP = 0.25, 0.45
CARD: dict[str, AttributeValue] = {
    "max_threads_per_block": 1024,
    "max_shared_memory_per_block": 49152,
    "thread_warp_size": 32,
}
HOST: Attributes = FrozenMap({"mcpu": "x86-64-v3", "num-cores": 8})


@dataclass(frozen=True)
class Form:
    """A suppression of ``boxes`` boxes of ``classes`` classes; a share of them has scores above the threshold."""

    name: str
    classes: int
    boxes: int
    kept: int
    likely: float

    def draw(self) -> dict[str, np.ndarray]:
        """Return boxes and scores."""
        random = np.random.default_rng(0)
        place, size = random.uniform(0, 600, (self.boxes, 2)), random.uniform(20, 80, (self.boxes, 2))
        scores = random.uniform(SCORE, 1, (1, self.classes, self.boxes))
        scores[random.uniform(size=scores.shape) >= self.likely] = 0
        boxes = np.concatenate([place, place + size], axis=1)[None]
        return {"boxes": boxes.astype(np.float32), "scores": scores.astype(np.float32)}


FORMS = (
    Form("few", 1, 8400, 300, 0.01),
    Form("all", 1, 8400, 300, 1.0),
    Form("without_a_limit", 1, 8400, 8400, 1.0),
    Form("classes", 80, 8400, 100, 0.01),
    Form("several_tiles", 1, 25200, 25200, 1.0),
)


def main() -> None:
    """Build, or print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "time"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--driver", default="12.0")
    parser.add_argument("--repeat", type=int, default=100)
    args = parser.parse_args()
    if args.what == "build":
        args.folder.mkdir(parents=True, exist_ok=True)
        for form in FORMS:
            attributes: Attributes = FrozenMap({"arch": args.arch, "driver": args.driver, **CARD})
            build(form, PackageTarget("card", "cuda", attributes, HOST), args.folder)
        return
    print("| form | boxes | take part | kept | median, ms |\n|---|---:|---:|---:|---:|")
    for form in FORMS:
        print(measure(form, args.folder, args.repeat), flush=True)


def build(form: Form, target: PackageTarget, folder: Path) -> None:
    """Write the package of a form."""
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415 - the card's machine need not have it

    from tvmbuild.building.package import BuildOptions, build_package  # noqa: PLC0415

    limits = {
        "most": np.array([form.kept], np.int64),
        "overlap": np.array([OVERLAP], np.float32),
        "least": np.array([SCORE], np.float32),
    }
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in form.draw().items()
    ]
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores", *limits], ["found"])
    output = helper.make_tensor_value_info("found", TensorProto.INT64, None)
    constants = [numpy_helper.from_array(value, name) for name, value in limits.items()]
    graph = helper.make_graph([node], form.name, inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    package = build_package(model.SerializeToString(), target, options=BuildOptions(form.name))
    write_package(folder / f"{form.name}.tar", package)


def measure(form: Form, folder: Path, repeat: int) -> str:
    """Return the row of a form."""
    inputs = form.draw()
    with tvmbuild.load(folder / f"{form.name}.tar") as session:
        kept = len(session.run(inputs)["found"])
        call = session.bind({name: session.to_device(value) for name, value in inputs.items()})
        warm_up(call, 0.5)
        median = statistics.median(time_calls(call, 1, repeat))
    likely = int(np.count_nonzero(inputs["scores"] > SCORE))
    return f"| {form.name} | {form.boxes} | {likely} | {kept} | {median:.3f} |"


if __name__ == "__main__":
    main()
