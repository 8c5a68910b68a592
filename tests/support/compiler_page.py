"""The list of passes that the site shows in docs/explanation/compiler.md, from the passes and their docstrings.

    PYTHONPATH=.:tests/support python tests/support/compiler_page.py

This command prints the list.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import tvm
from pass_examples import EXAMPLES, find_lowering
from tvm import tirx

from tvmbuild.compiler.apply import RECORDED, REPACKED, SCHEDULED
from tvmbuild.compiler.codegen.executable import VIRTUAL_MACHINE
from tvmbuild.compiler.pass_manager import Pass, Phase
from tvmbuild.compiler.pipeline import PHASES
from tvmbuild.compiler.schedules.cpu.tir_passes import TIR_PASSES

ROOT = Path(__file__).resolve().parents[2]
LISTED = (*PHASES, RECORDED, SCHEDULED, TIR_PASSES, REPACKED, VIRTUAL_MACHINE)
CONDITIONS = {
    "on_cpu": "on CPUs",
    "on_gpu": "on GPUs",
    "on_cuda": "on CUDA",
    "not_on_cuda": "on targets other than CUDA",
    "on_vulkan": "on Vulkan",
    "in_nhwc": "if convolutions are in NHWC",
    "in_nchw": "if convolutions are in NCHW",
    "in_nhwc_throughout": "if the layout is `NHWC`",
    "in_nhwc_each": "if the layout is `NHWC each`",
    "allows_tf32": "if TF32 is allowed",
}
"""The words for a condition of a pass."""
WIDTH = 118
DEFAULTS = re.compile(
    r", (out_dtype=None|groups=1|(dilation|strides)=\[1(, 1)*\]|padding=\[0(, 0)*\]|output_padding=\[0, 0\]"
    r"|assume_inbound=False|out_layout=\"\w+\"|(data|kernel)_layout=\"(NCHW|OIHW|IOHW)\")"
)


def write_section() -> str:
    """Write the phases with their passes, as Markdown."""
    return "\n".join(line for phase in LISTED for line in _write_phase(phase))


def _write_phase(phase: Phase) -> Iterator[str]:
    yield f"### Phase: {phase.name}"
    yield ""
    for each in phase.passes:
        yield from _write_pass(each)


def _write_pass(each: Pass) -> Iterator[str]:
    if each.is_tvms:
        yield from _quote(f"**{each.name}** is a TVM pass.{_say_when(each)}{_say_order(each)}")
        return
    yield f"#### {each.name}"
    yield ""
    function = each.written_in
    assert function is not None, each.name
    module = inspect.getmodule(function)
    assert module is not None
    place = Path(inspect.getfile(function)).relative_to(ROOT)
    yield from _quote(f"`{place}`, `{function.__name__}`.{_say_when(each)}{_say_order(each)}")
    yield from _quote((inspect.getdoc(function) or "").split("\n\n")[0])
    if len([each for phase in LISTED for each in phase.passes if _is_in(each, module.__name__)]) == 1:
        yield from _quote((inspect.getdoc(module) or "").partition("\n\n")[2])
    if each.name in EXAMPLES:
        yield from _write_example(each)


def _is_in(each: Pass, module: str) -> bool:
    return each.written_in is not None and each.written_in.__module__ == module


def _say_when(each: Pass) -> str:
    words = [CONDITIONS[condition.__name__.strip("_")] for condition in each.when]
    return f" It runs {', '.join(words)}." if words else ""


def _say_order(each: Pass) -> str:
    after = [f" It runs after {name}: {why}." for name, why in each.after.items()]
    return "".join([*after, *(f" It runs before {name}: {why}." for name, why in each.before.items())])


def _quote(text: str) -> Iterator[str]:
    for paragraph in filter(None, text.split("\n\n")):
        text = " ".join(paragraph.split()).replace("``", "`")
        for sentence in re.split(r"(?<=[.]) (?=[A-Z`])", text):
            yield from textwrap.wrap(sentence, WIDTH, break_long_words=False)
        yield ""


def _write_example(each: Pass) -> Iterator[str]:
    lowering = find_lowering(each.name)
    before = EXAMPLES[each.name]
    with lowering.target:
        after = each.run(before, lowering)
    yield "```python"
    yield from show(before)
    yield "```"
    yield ""
    yield "becomes"
    yield ""
    yield "```python"
    yield from show(after)
    yield "```"
    yield ""


def show(mod: tvm.ir.IRModule) -> list[str]:
    """Return the bindings of ``main`` without types and defaults, and the names of the TensorIR functions."""
    lines = []
    for line in mod.script(show_meta=False).split("def main(")[1].splitlines()[1:]:
        if re.match(r" +(with R.dataflow|R.output|cls = |return|# Meta|$)", line) or not line.startswith(" "):
            continue
        name, _, value = line.strip().partition(" = ")
        text = f"{name.partition(':')[0]} = {value}"
        text = re.sub(r"R\.shape\((\[[^\]]*\])\)", r"\1", DEFAULTS.sub("", text))
        text = re.sub(r", out_ty=R\.Tensor\((\([^)]*\)), dtype=(\"\w+\")\)", r", \1, \2", text)
        lines.append(re.sub(r'metadata\["ir\.GenericConst"\]\[\d+\]', "CONSTANT", text).replace("R.", ""))
    functions = sorted(v.name_hint for v, each in mod.functions.items() if isinstance(each, tirx.PrimFunc))
    return [*lines, *([f"# functions: {', '.join(functions)}"] if functions else [])]


if __name__ == "__main__":
    print(write_section())
