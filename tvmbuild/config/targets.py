"""The conversion of targets.yaml's data to TargetSpecs, with the checks that a schema cannot make."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvmbuild.base.attributes import Attributes, AttributeValue
from tvmbuild.base.byte_sizes import read_size
from tvmbuild.base.did_you_mean import find_nearest
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.layout import Layout
from tvmbuild.base.specs import BenchmarkOptions, TargetSpec, TuneOptions
from tvmbuild.config.defaults import merge_maps
from tvmbuild.config.document import Document
from tvmbuild.config.mistakes import KeyPath
from tvmbuild.config.schema import load_schema
from tvmbuild.config.target_lock import Questions, TargetLock, read_lock
from tvmbuild.devices.table import parse_device
from tvmbuild.targets.table import TARGETS, target_kind


def attribute_names(kind: str) -> frozenset[str]:
    """Return the TVM attributes that a target of that kind may state in targets.yaml."""
    schema = load_schema("targets")
    definitions = schema["$defs"]
    others = {"kind", "host", "family", "from_device", "precision", *schema["properties"]["defaults"]["properties"]}
    return frozenset(definitions[kind]["properties"]) - others


def make_targets(document: Document, root: Path) -> tuple[TargetSpec, ...]:
    """Return the valid targets and report the mistakes of the others."""
    if not isinstance(document.data, dict):
        return ()
    defaults = document.part((), "defaults", {})
    defaults = _with_text(document, ("defaults",), defaults)
    targets = document.data.get("targets")
    specs = []
    targets = targets if isinstance(targets, dict) else {}
    for name, own in targets.items():
        path: KeyPath = ("targets", name)
        if isinstance(own, dict):
            _check_pinned(document, path, own)
            data = merge_maps(defaults, _with_text(document, path, own))
            if document.is_sound(path):
                for key, what, expected in target_kind(data["kind"]).find_mistakes(data):
                    document.report((*path, key), what, expected)
                for each, alone in spread_precisions(name, data).items():
                    spec = replace(_make_target(root, name, alone), name=each)
                    _check_precision(document, path, spec)
                    specs.append(spec)
                    _check_free(document, path, each, targets)
    return tuple(specs)


def spread_precisions(name: str, data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return name → data for the targets of one entry: with a list of precisions there is a target for each.

    The first has the entry's name, the others have the precision after it: `cpu`, `cpu-fp16`, `cpu-int8`.
    """
    precisions = data.get("precision", "fp32")
    if isinstance(precisions, str):
        return {name: data}
    return {
        name if index == 0 else f"{name}-{precision}": {**data, "precision": precision}
        for index, precision in enumerate(precisions)
    }


def _check_free(document: Document, path: KeyPath, name: str, targets: Mapping[str, Any]) -> None:
    """Report a target of a list of precisions whose name another entry has."""
    if name != path[-1] and name in targets:
        document.report((*path, "precision"), f"the target {name} stands in the file, too", "another name for it")


def list_target_data(document: Document) -> dict[str, dict[str, Any]]:
    """Return each target as it is written in the file, with the file's defaults. The file must have no mistakes."""
    defaults = _with_text(document, ("defaults",), document.data.get("defaults", {}))
    targets = document.data["targets"].items()
    written = {name: merge_maps(defaults, _with_text(document, ("targets", name), own)) for name, own in targets}
    return {name: alone for each, data in written.items() for name, alone in spread_precisions(each, data).items()}


def find_questions(data: dict[str, Any]) -> Questions:
    """Return the settings that the target leaves to its lock: `native` and `from_device`."""
    found = {
        "from_device": data.get("from_device"),
        "mcpu": data.get("mcpu"),
        "host.mcpu": data.get("host", {}).get("mcpu"),
    }
    return FrozenMap({key: value for key, value in found.items() if isinstance(value, int) or value == "native"})


def _with_text(document: Document, path: KeyPath, data: dict[str, Any]) -> dict[str, Any]:
    """Return ``data`` with versions as they are written, 2.30 and not 2.3. Report a text that is not a version."""
    definitions = load_schema("targets")["$defs"]
    for key, rule in (("glibc", definitions["glibc"]), ("driver", definitions["cuda"]["properties"]["driver"])):
        here = (*path, key)
        if here not in document.texts:
            continue
        text = document.texts[here]
        if not re.search(rule["pattern"], text):
            document.report(here, f"{text} is not valid", rule["patternErrorMessage"])
        data = {**data, key: text}
    return data


def _check_pinned(document: Document, path: KeyPath, data: dict[str, Any]) -> None:
    """Report missing attributes, without which the package would depend on the machine that builds it."""
    name = document.part(path, "kind", None)
    if name not in TARGETS:
        return
    kind = TARGETS[name]
    if not kind.on_gpu:
        _check_triple(document, path, name, data)
        return
    if isinstance(data.get("host"), dict):
        _check_triple(document, (*path, "host"), "host", data["host"])
    family = ", a family" if kind.families else ""
    word = f"{name}:{data['arch']}" if "arch" in data else name
    written = f"`tvmbuild target add {word}` writes them"
    expected = f"every limit of the device{family}, or from_device: 0 and `tvmbuild target lock {path[-1]}`; {written}"
    answers = {"from_device", "family"}
    misspelt = _guess_keys(name, data, (*kind.pinned, *answers))
    for key in kind.pinned if not answers & (data.keys() | misspelt) else ():
        if key not in data and key not in misspelt:
            document.report_key(path, f'the key "{key}" is missing', expected)


def _check_triple(document: Document, path: KeyPath, definition: str, data: dict[str, Any]) -> None:
    if not {"mtriple"} & (data.keys() | _guess_keys(definition, data, ("mtriple",))) and data.get("mcpu") != "native":
        expected = "mtriple: LLVM's triple, such as x86_64-linux-gnu; or mcpu: native"
        document.report_key(path, 'the key "mtriple" is missing', expected)


def _guess_keys(definition: str, data: dict[str, Any], wanted: tuple[str, ...]) -> set[str | None]:
    """Return the wanted keys that unknown keys of ``data`` misspell; the schema reports the unknown keys."""
    unknown = data.keys() - load_schema("targets")["$defs"][definition]["properties"].keys()
    return {find_nearest(key, wanted) for key in unknown}


def _check_precision(document: Document, path: KeyPath, target: TargetSpec) -> None:
    """Report a precision that the hardware does not support. The answer may depend on the target's lock."""
    if target.precision in {"fp32", "int8"} or target.unresolved is not None:
        return
    problem = target_kind(target.kind).explain_precision(target.precision, target.attributes)
    if problem is not None:
        document.report((*path, "precision"), f"{target.precision}: {problem[0]}", problem[1])


def _make_target(root: Path, name: str, data: dict[str, Any]) -> TargetSpec:
    kind = data["kind"]
    asked = find_questions(data)
    lock, unresolved = TargetLock(), None
    if asked:
        lock, unresolved = read_lock(Layout(root).target_lock(name), name, asked)
    glibc = data.get("glibc")
    return TargetSpec(
        name=name,
        kind=kind,
        attributes=_overlay(lock.attributes, {**_family(data), **_pick(data, attribute_names(kind))}),
        host=_overlay(lock.host, data["host"]) if target_kind(kind).on_gpu else FrozenMap(),
        precision=data.get("precision", "fp32"),
        link=data.get("link", "auto"),
        glibc=glibc,
        memory=read_size(data["memory"]) if "memory" in data else None,
        measured_on=data.get("measured_on"),
        device=parse_device(data.get("device", "local")),
        tune=_make_tune(data.get("tune", {})),
        benchmark=_make_benchmark(data.get("benchmark", {})),
        unresolved=unresolved,
        enabled=data.get("enabled", True),
    )


def _family(data: dict[str, Any]) -> Mapping[str, AttributeValue]:
    return target_kind(data["kind"]).families[data["family"]] if "family" in data else {}


def _pick(data: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key in names}


def _overlay(locked: Attributes, data: dict[str, Any]) -> Attributes:
    """Return the lock's attributes overridden by those of the YAML file, except `native`, sorted by name."""
    stated = {key: _freeze(value) for key, value in data.items() if not (key == "mcpu" and value == "native")}
    return FrozenMap(sorted({**locked, **stated}.items()))


def _freeze(value: Any) -> AttributeValue:
    if isinstance(value, list):
        return tuple(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _make_tune(data: dict[str, Any]) -> TuneOptions:
    plain = dict(data)
    plain["ops"] = tuple(data.get("ops", ("*",)))
    if "algorithms" in data:
        plain["algorithms"] = tuple(data["algorithms"])
    minutes = data.get("minutes")
    return TuneOptions(**_integers(plain) | {"minutes": None if minutes is None else float(minutes)})


def _make_benchmark(data: dict[str, Any]) -> BenchmarkOptions:
    plain = dict(data)
    if "baselines" in data:
        plain["baselines"] = tuple(data["baselines"])
    return BenchmarkOptions(**_integers(plain))


def _integers(data: dict[str, Any]) -> dict[str, Any]:
    """Return ``data`` with 1e3, which the schema accepts as an integer, as 1000."""
    return {key: int(value) if isinstance(value, float) else value for key, value in data.items()}
