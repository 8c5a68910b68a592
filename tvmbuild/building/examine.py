"""Lower a model file to its Tasks and print findings as JSON: ``python -m tvmbuild.building.examine REQUEST``.

It runs in its own process, because a model may crash its reader. It builds and writes nothing.
"""

from __future__ import annotations

import copy
import json
import math
import re
import sys
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tvmbuild.base.open_dimensions import Question
from tvmbuild.base.specs import InputSpec
from tvmbuild.errors import TvmbuildError


@dataclass(frozen=True)
class Examined:
    """The facts about a model, and the reason if it cannot be built."""

    opset: int = 0
    nodes: int = 0
    inputs: tuple[str, ...] = ()
    """``data float32[1, 3, 224, 224]``."""
    names: tuple[str, ...] = ()
    """The names of all inputs, also for a model that cannot be built."""
    tasks: int = 0
    constants: int = 0
    """Bytes."""
    flops: int = 0
    slow: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()
    """`128 stands for sequence`: assumed sizes in place of missing ones, on which the other facts depend."""
    also: tuple[str, ...] = ()
    """Other obstacles, as far as the assumed sizes show them."""
    passes: tuple[str, ...] = ()
    """The lines of a table of the passes that ran."""
    problem: str | None = None
    hint: str | None = None


@dataclass(frozen=True)
class Wish:
    """The options of an examination: the CPU, and the recordings."""

    cpu: str | None = None
    """LLVM's name of the CPU that the model would be built for. None: this machine's."""
    dump: Path | None = None
    """The folder that gets the module after each pass."""
    passes: bool = False
    """Whether a table of the passes is wanted."""


def examine(path: Path, wish: Wish, inputs: tuple[InputSpec, ...]) -> Examined:
    """Lower the model to its Tasks for an llvm target.

    Entries of ``inputs`` that the model lacks belong to other models. If the model cannot be built, that is a finding.
    """
    from tvmbuild.preparing.model_file import read_model  # noqa: PLC0415 - all of it is the child's, and slow to import
    from tvmbuild.preparing.onnx_graph import graph_inputs  # noqa: PLC0415
    from tvmbuild.preparing.open_inputs import OpenShapesError  # noqa: PLC0415

    names: tuple[str, ...] = ()
    try:
        proto = read_model(path, path.name)
        names = tuple(value.name for value in graph_inputs(proto))
        given = tuple(each for each in inputs if each.name in names)
        try:
            return replace(_look(copy.deepcopy(proto), given, path.name, wish), names=names)
        except OpenShapesError as error:
            said = say_without_project(error)
            found = _look_by_stand_ins(proto, path.name, given, error.question, wish)
            return replace(found, names=names, problem=said.message, hint=said.hint)
    except TvmbuildError as error:
        said = say_without_project(error)
        return Examined(names=names, problem=said.message, hint=said.hint)


def _look(proto: Any, given: tuple[InputSpec, ...], name: str, wish: Wish) -> Examined:
    """Return the facts of a model whose shapes are given. Raises TvmbuildError if it cannot be built."""
    from tvmbuild.compiler.importing.expand.scope import find_opset  # noqa: PLC0415
    from tvmbuild.preparing.onnx_graph import set_output_shapes  # noqa: PLC0415
    from tvmbuild.preparing.onnxsim_process import simplify_in_process  # noqa: PLC0415
    from tvmbuild.preparing.original import open_original  # noqa: PLC0415
    from tvmbuild.preparing.reference import make_inputs, run_onnx  # noqa: PLC0415

    nodes, original = len(proto.graph.node), open_original(proto, given, name, 0)
    proto, tensors = original.proto, original.tensors
    set_output_shapes(proto, run_onnx(proto.SerializeToString(), make_inputs(tensors, given, 0), name))
    simplified, trouble = simplify_in_process(proto.SerializeToString(), ())
    found = _lower(simplified or proto, name, wish)
    notes = [*original.notes, *([f"not simplified: {trouble}"] if trouble else [])]
    shown = tuple(f"{each.name} {each.dtype}{list(each.shape)}" for each in tensors)
    return replace(found, opset=find_opset(proto), nodes=nodes, inputs=shown, notes=(*notes, *found.notes))


def _look_by_stand_ins(proto: Any, name: str, given: tuple[InputSpec, ...], question: Question, wish: Wish) -> Examined:
    """Return the facts that are known without the missing sizes: all, with assumed sizes, or only those of the file."""
    from tvmbuild.compiler.importing.expand.scope import find_opset  # noqa: PLC0415
    from tvmbuild.preparing.onnx_graph import fix_inputs, graph_inputs  # noqa: PLC0415
    from tvmbuild.preparing.open_inputs import describe_input  # noqa: PLC0415

    specs = (
        *(InputSpec(each, shape) for each, shape in question.stand_ins.items()),
        *(each for each in given if each.value is not None),
    )
    opset, nodes, shown = find_opset(proto), len(proto.graph.node), tuple(map(describe_input, graph_inputs(proto)))
    try:
        return replace(_look(copy.deepcopy(proto), specs, name, wish), inputs=shown, stand_ins=question.stands)
    except TvmbuildError as first:
        also = [first]
    if "operator" not in also[0].message:  # other obstacles may be known without a run
        try:
            fix_inputs(proto, specs, name)
            _lower(proto, name, wish)
        except TvmbuildError as second:
            also.append(second)
    told = tuple(dict.fromkeys(say_without_project(each).message for each in also))
    return Examined(opset=opset, nodes=nodes, inputs=shown, stand_ins=question.stands, also=told)


def say_without_project(error: TvmbuildError) -> TvmbuildError:
    """Return the error in words for somebody who has no models.yaml."""
    hint = re.sub(r"`inputs: \{(\S+): \{value: …\}\}`", r"`--value \1=…`", error.hint or "")
    hint = hint.replace("correct `shape:` in models.yaml", "correct --shape")
    hint = re.sub(r"([Cc])orrect `inputs:` in models\.yaml", r"\1orrect --shape or --value", hint)
    if shaped := re.search(r"(`inputs: .*`) \(for `tvmbuild check`: (`--shape .*`)\);(.*)", hint):
        hint = f"fix them with {shaped[2]}, or in models.yaml by {shaped[1]};{shaped[3]}"
    elif "--value" in hint:
        hint = hint.replace("in models.yaml", "with --shape")
    elif "models.yaml" in hint or "`source:`" in hint:
        hint = "give an ONNX file, whole"
    return TvmbuildError(error.message.replace("models.yaml", "--shape"), hint or None)


def _lower(model: Any, name: str, wish: Wish) -> Examined:
    from tvmbuild.building.scheduling import lower_to_tasks  # noqa: PLC0415
    from tvmbuild.compiler.bugs import collect_bugs  # noqa: PLC0415
    from tvmbuild.compiler.codegen.executable import check_lowered  # noqa: PLC0415
    from tvmbuild.compiler.dump import format_table, record_passes  # noqa: PLC0415
    from tvmbuild.compiler.importing.importer import import_model  # noqa: PLC0415
    from tvmbuild.compiler.machine.machine import describe_machine  # noqa: PLC0415
    from tvmbuild.compiler.machine.target import host_target  # noqa: PLC0415
    from tvmbuild.compiler.operators import count_flops, describe_share  # noqa: PLC0415
    from tvmbuild.compiler.passes.lift_constants import lift_constants  # noqa: PLC0415
    from tvmbuild.compiler.schedules.cpu.rules import sums_without_tiles  # noqa: PLC0415

    target = host_target(wish.cpu)
    # Comparing the module after each pass takes as long as the passes do.
    recording: AbstractContextManager[list[Any]] = (
        record_passes(wish.dump) if wish.passes or wish.dump else nullcontext([])
    )
    with collect_bugs() as bugs, recording as ran:
        lowered, tasks = lower_to_tasks(import_model(model, name), target)
        check_lowered(lowered.mod)
        machine = describe_machine(target)
        plain = [task for task in tasks if sums_without_tiles(task.mod["main"], machine)]
    flops = {task.key: (count_flops(task.mod["main"]) or 0) * task.weight for task in tasks}
    slow: Counter[str] = Counter()
    for task in plain:
        slow[task.name] += flops[task.key]
    total = sum(flops.values())
    params = lift_constants(lowered.mod, len(lowered.inputs)).params
    return Examined(
        tasks=len(tasks),
        constants=sum(math.prod(each.shape) * each.dtype.bits // 8 for each in params),
        flops=total,
        slow=tuple(f"{task} ({describe_share(part, total)})" for task, part in slow.most_common()),
        notes=(*lowered.notes, *bugs),
        passes=tuple(format_table(ran)) if wish.passes else (),
    )


def main(request: str) -> None:
    """Print the findings."""
    asked = json.loads(request)
    shapes, values = asked["shapes"], asked["values"]
    inputs = tuple(
        InputSpec(name, tuple(shapes[name]) if name in shapes else None, value=values.get(name))
        for name in sorted({*shapes, *values})
    )
    wish = Wish(asked["cpu"], Path(asked["dump"]) if asked["dump"] else None, asked["passes"])
    found = examine(Path(asked["path"]), wish, inputs)
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main(sys.argv[1])
