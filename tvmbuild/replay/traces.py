"""Conversion of traces and workloads between plain JSON and TVM's objects."""

from __future__ import annotations

import json
from typing import Any

import tvm
from tvm.s_tir.meta_schedule import _ffi_api
from tvm.s_tir.meta_schedule.database import TuningRecord, Workload

from tvmbuild.base.files import canonical_json
from tvmbuild.compiler.codegen.intrinsics import register_named
from tvmbuild.errors import TvmbuildError
from tvmbuild.records.task_file import Json


def dump_trace(record: TuningRecord) -> str:
    """Return the record's trace as canonical JSON text.

    Each IndexMap (prepacking) is written with TVM's ``save_json``, because ``TuningRecord.as_json`` raises an error on
    one.
    """
    # pylint: disable-next=no-member
    instructions, decisions = _ffi_api.TuningRecordAsJSON(record)[0]
    return canonical_json({"instructions": _plain(instructions), "decisions": _plain(decisions)})


def load_record(trace: str, workload: Workload, target: tvm.target.Target) -> TuningRecord:
    """Return a TuningRecord with that trace. Raises TvmbuildError if this TVM cannot read the trace."""
    register_named(trace)
    data = json.loads(trace)
    try:
        return TuningRecord.from_json(
            [[data["instructions"], data["decisions"]], [1.0], target.export(), _args_info(workload)], workload
        )
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError) as error:
        raise TvmbuildError(f"a record's trace cannot be read by this TVM: {_first_line(error)}") from error


def dump_workload(mod: tvm.IRModule) -> str:
    """Return the module as TVM's JSON text, without spaces."""
    return json.dumps(json.loads(tvm.ir.save_json(mod)), separators=(",", ":"))


def load_workload(text: str) -> tvm.IRModule:
    """Return the module from the text of `dump_workload`. Raises TvmbuildError if this TVM cannot read it."""
    try:
        return tvm.ir.load_json(text)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError) as error:
        raise TvmbuildError(f"a record's workload cannot be read by this TVM: {_first_line(error)}") from error


def _args_info(workload: Workload) -> list[Any]:
    infos = tvm.s_tir.meta_schedule.arg_info.ArgInfo.from_entry_func(workload.mod, remove_preproc=True)
    return [info.as_json() for info in infos]


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def _plain(value: Any) -> Json:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tvm.tirx.IndexMap):
        return str(tvm.ir.save_json(value))
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return _plain(value.value)
    if hasattr(value, "items"):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "__iter__"):
        return [_plain(item) for item in value]
    raise TypeError(f"a trace holds a {type(value).__name__}, which has no JSON form")
