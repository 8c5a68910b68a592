"""The program of `tvmbuild check`: it lowers a model file to its Tasks and prints facts about the model as JSON.

It is started as ``python -m tvmbuild.building.examine REQUEST`` in its own process, because a model may crash the
libraries that read it. It builds no package. It writes files only for a dump of the passes.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmbuild.base.exported import read_exported
from tvmbuild.base.open_dimensions import Question
from tvmbuild.base.size_proposals import propose_sizes
from tvmbuild.base.specs import InputSpec
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.memory import Memory

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Examined:
    """The facts about a model, and the reason if it cannot be built. Facts that are unknown keep their defaults."""

    opset: int = 0
    nodes: int = 0
    """The number of nodes of the ONNX graph in the file."""
    inputs: tuple[str, ...] = ()
    """A text for each input: ``data float32[1, 3, 224, 224]``."""
    names: tuple[str, ...] = ()
    """The names of all inputs, also for a model that cannot be built."""
    tasks: int = 0
    """The number of Tasks."""
    constants: int = 0
    """The size of the model's constants (its weights) in bytes."""
    workspace: int = 0
    """The bytes that a run allocates: the static plan of the values between operators, and the outputs."""
    memory: Memory | None = None
    """An estimate of the package's memory. None if it was not asked for."""
    flops: int = 0
    """The number of floating-point operations of one run."""
    slow: tuple[str, ...] = ()
    """The Tasks with reductions that would stay plain loops without records, each with its share of ``flops``."""
    notes: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()
    """Lines for models.yaml that say what the outputs may mean."""
    labels: tuple[str, ...] = ()
    """The names of the classes that the exporter has written into the file."""
    sizes: tuple[str, ...] = ()
    """The lines for models.yaml that make one package of several sizes. Empty if no dimension is open."""
    stand_ins: tuple[str, ...] = ()
    """A text for each size that was assumed in place of a missing one, for example `128 stands for sequence`.

    The other facts hold for these sizes.
    """
    also: tuple[str, ...] = ()
    """Messages about further obstacles that were found with the assumed sizes, in addition to ``problem``."""
    passes: tuple[str, ...] = ()
    """The lines of a table of the passes that ran."""
    problem: str | None = None
    """The reason why the model cannot be built. None if it can be built."""
    hint: str | None = None
    """The remedy for ``problem``."""


@dataclass(frozen=True)
class Wish:
    """The options of an examination: the CPU, and the recording of passes."""

    cpu: str | None = None
    """LLVM's name of the CPU that the model would be built for. None means this machine's CPU."""
    dump: Path | None = None
    """The folder in which the module is written after each pass that changes it. None if there is no dump."""
    passes: bool = False
    """True if the result contains a table of the passes."""
    memory: bool = False
    """True if the model is also scheduled, and the result contains an estimate of its memory."""


def examine(path: Path, wish: Wish, inputs: tuple[InputSpec, ...]) -> Examined:
    """Lower the model in the file ``path`` to its Tasks for a CPU, and return the facts about it.

    Entries of ``inputs`` that are not inputs of this model are ignored. If the model cannot be built, this raises
    nothing: the result has the reason.
    """
    from tvmbuild.preparing.model_file import read_model  # noqa: PLC0415 - all of it is the child's, and slow to import
    from tvmbuild.preparing.onnx_graph import graph_inputs  # noqa: PLC0415
    from tvmbuild.preparing.open_inputs import OpenShapesError, read_shapes, read_types  # noqa: PLC0415

    names: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    try:
        proto = read_model(path, path.name)
        names = tuple(value.name for value in graph_inputs(proto))
        if not any(each.shape for each in inputs):
            values = graph_inputs(proto)
            sizes = propose_sizes(read_shapes(values), read_types(values))
        given = tuple(each for each in inputs if each.name in names)
        try:
            return replace(_look(copy.deepcopy(proto), given, path.name, wish), names=names, sizes=sizes)
        except OpenShapesError as error:
            said = say_without_project(error)
            found = _look_by_stand_ins(proto, path.name, given, error.question, wish)
            return replace(found, names=names, sizes=sizes, problem=said.message, hint=said.hint)
    except TvmbuildError as error:
        said = say_without_project(error)
        return Examined(names=names, problem=said.message, hint=said.hint)


def _look(proto: Any, given: tuple[InputSpec, ...], name: str, wish: Wish) -> Examined:
    """Return the facts about a model whose open sizes ``given`` fixes. Raises TvmbuildError if it cannot be built."""
    from tvmbuild.compiler.importing.expand.scope import find_opset  # noqa: PLC0415
    from tvmbuild.preparing.interface import restore_interface  # noqa: PLC0415
    from tvmbuild.preparing.onnx_graph import set_output_shapes  # noqa: PLC0415
    from tvmbuild.preparing.onnxsim_process import simplify_in_process  # noqa: PLC0415
    from tvmbuild.preparing.original import open_original  # noqa: PLC0415
    from tvmbuild.preparing.reference import make_inputs, run_onnx  # noqa: PLC0415

    nodes, original = len(proto.graph.node), open_original(proto, given, name, 0)
    proto, tensors = original.proto, original.tensors
    values = run_onnx(proto.SerializeToString(), make_inputs(tensors, given, 0), name)
    set_output_shapes(proto, values)
    simplified, trouble = simplify_in_process(proto.SerializeToString(), ())
    if simplified is not None:
        restore_interface(proto, simplified)
    found = _lower(simplified or proto, name, wish, values)
    notes = [*original.notes, *([f"not simplified: {trouble}"] if trouble else [])]
    shown = tuple(f"{each.name} {each.dtype}{list(each.shape)}" for each in tensors)
    return replace(found, opset=find_opset(proto), nodes=nodes, inputs=shown, notes=(*notes, *found.notes))


def _look_by_stand_ins(proto: Any, name: str, given: tuple[InputSpec, ...], question: Question, wish: Wish) -> Examined:
    """Return the facts about a model with missing sizes, which are replaced by the assumed sizes of ``question``.

    If the model cannot be built with these sizes, only the facts in the file are returned, and the obstacles.
    """
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
    """Return the error with options of the command line in place of entries of models.yaml, which may not exist."""
    hint = re.sub(r"`inputs: \{(\S+): \{value: …\}\}`", r"`--value \1=…`", error.hint or "")
    hint = hint.replace("correct `shape:` in models.yaml", "correct --shape")
    hint = re.sub(r"([Cc])orrect `inputs:` in models\.yaml", r"\1orrect --shape or --value", hint)
    if shaped := re.search(r"(`inputs: .*`) \(for `tvmbuild check`: (`--shape .*`)\);(.*)", hint):
        hint = f"fix them with {shaped[2]}, or in models.yaml by {shaped[1]};{shaped[3]}"
    elif "--value" in hint:
        hint = hint.replace("in models.yaml", "with --shape")
    elif "`source:`" in hint:
        hint = "Name a complete ONNX file."
    elif "models.yaml" in hint:
        hint = f"in a project, which `tvmbuild init` makes: {hint}"
    return TvmbuildError(error.message.replace("models.yaml", "--shape"), hint or None)


def _lower(model: Any, name: str, wish: Wish, values: Mapping[str, np.ndarray] | None = None) -> Examined:
    """Return the facts about a lowered model. ``values`` are its outputs for random inputs, if it has run."""
    from tvmbuild.building.memory_estimate import estimate_memory  # noqa: PLC0415
    from tvmbuild.building.scheduling import lower_to_tasks  # noqa: PLC0415
    from tvmbuild.compiler.bugs import collect_bugs  # noqa: PLC0415
    from tvmbuild.compiler.codegen.executable import check_lowered, plan_workspace  # noqa: PLC0415
    from tvmbuild.compiler.dump import format_table, record_passes  # noqa: PLC0415
    from tvmbuild.compiler.importing.importer import import_model  # noqa: PLC0415
    from tvmbuild.compiler.interface import Interface  # noqa: PLC0415
    from tvmbuild.compiler.machine.machine import describe_machine  # noqa: PLC0415
    from tvmbuild.compiler.machine.target import host_target  # noqa: PLC0415
    from tvmbuild.compiler.operators import count_flops, describe_share  # noqa: PLC0415
    from tvmbuild.compiler.passes.lift_constants import lift_constants  # noqa: PLC0415
    from tvmbuild.compiler.results.propose import Evidence, propose_postprocess  # noqa: PLC0415
    from tvmbuild.compiler.schedules.cpu.rules import sums_without_tiles  # noqa: PLC0415
    from tvmbuild.preparing.onnx_graph import find_probabilities  # noqa: PLC0415

    target = host_target(wish.cpu)
    exported = read_exported({each.key: each.value for each in model.metadata_props})
    # Comparing the module after each pass takes as long as the passes do.
    recording: AbstractContextManager[list[Any]] = (
        record_passes(wish.dump) if wish.passes or wish.dump else nullcontext([])
    )
    with collect_bugs() as bugs, recording as ran:
        lowered, tasks = lower_to_tasks(import_model(model, name), target)
        check_lowered(lowered.mod)
        machine = describe_machine(target)
        plain = [task for task in tasks if sums_without_tiles(task.mod["main"], machine)]
        memory = estimate_memory(lowered, tasks, target) if wish.memory else None
    flops = {task.key: (count_flops(task.mod["main"]) or 0) * task.weight for task in tasks}
    slow: Counter[str] = Counter()
    for task in plain:
        slow[task.name] += flops[task.key]
    total = sum(flops.values())
    lifted = lift_constants(lowered.mod)
    return Examined(
        tasks=len(tasks),
        constants=lifted.bytes,
        workspace=plan_workspace(lifted.mod, target),
        memory=memory,
        flops=total,
        slow=tuple(f"{task} ({describe_share(part, total)})" for task, part in slow.most_common()),
        notes=(*lowered.notes, *bugs, *([] if exported is None else exported.describe())),
        proposals=propose_postprocess(
            Interface(name, lowered.inputs, lowered.outputs),
            Evidence(exported, find_probabilities(model), values or {}),
        ),
        labels=() if exported is None else exported.names,
        passes=tuple(format_table(ran)) if wish.passes else (),
    )


def main(request: str) -> None:
    """Examine the model that the ``request`` (JSON) names, and print the fields of `Examined` as one line of JSON."""
    asked = json.loads(request)
    shapes, values = asked["shapes"], asked["values"]
    inputs = tuple(
        InputSpec(name, tuple(shapes[name]) if name in shapes else None, value=values.get(name))
        for name in sorted({*shapes, *values})
    )
    wish = Wish(asked["cpu"], Path(asked["dump"]) if asked["dump"] else None, asked["passes"], asked["memory"])
    found = examine(Path(asked["path"]), wish, inputs)
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main(sys.argv[1])
