"""models.yaml's data → ModelSpecs, with the checks that a schema cannot make."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from tvmbuild.config.document import Document
from tvmbuild.config.merge import merge_maps
from tvmbuild.config.mistakes import KeyPath, find_nearest, show_value
from tvmbuild.specs import InputSpec, ModelSpec, Preprocess, SimplifyOptions, Source, Tolerance

_CHANNELS = {"rgb": 3, "bgr": 3, "gray": 1}


def make_models(document: Document, root: Path, targets: Sequence[str]) -> tuple[ModelSpec, ...]:
    """Return the models that are right and report what is wrong with the others.

    ``targets`` are the names of all targets, for globs that match none; empty: unknown, not checked.
    """
    if not isinstance(document.data, dict):
        return ()
    defaults = document.data.get("defaults") or {}
    if document.is_sound(("defaults",)):
        _check_globs(document, ("defaults", "targets"), defaults.get("targets", {}), targets)
    models = document.data.get("models")
    specs = []
    for name, own in models.items() if isinstance(models, dict) else ():
        path: KeyPath = ("models", name)
        if not document.is_sound(path):
            continue
        _check_globs(document, (*path, "targets"), own.get("targets", {}), targets)
        data = merge_maps(defaults, own) if document.is_sound(("defaults",)) else own
        specs.append(_make_model(document, root, name, data))
    return tuple(specs)


def _make_model(document: Document, root: Path, name: str, data: dict[str, Any]) -> ModelSpec:
    path: KeyPath = ("models", name)
    enabled = data.get("enabled", True)
    globs = data.get("targets", {})
    labels = data.get("labels")
    if labels is not None:
        labels = _check_file(document, root, (*path, "labels"), labels, must_exist=enabled)
    preprocess = data.get("preprocess")
    return ModelSpec(
        name=name,
        source=_make_source(document, root, (*path, "source"), data["source"], must_exist=enabled),
        inputs=tuple(
            _make_input(document, (*path, "inputs", key), item) for key, item in sorted(data.get("inputs", {}).items())
        ),
        tolerance=Tolerance(**_floats(data.get("tolerance", {}))),
        preprocess=None if preprocess is None else _make_preprocess(document, (*path, "preprocess"), preprocess),
        labels=labels,
        simplify=_make_simplify(data.get("simplify", {})),
        enabled=enabled,
        include=tuple(globs.get("include", ("*",))),
        exclude=tuple(globs.get("exclude", ())),
    )


def _make_source(document: Document, root: Path, path: KeyPath, data: dict[str, Any], *, must_exist: bool) -> Source:
    sha256 = data.get("sha256")
    sha256 = sha256.lower() if sha256 else None
    if "url" in data:
        return Source("url", data["url"], None, sha256)
    if "package" in data:
        return Source("package", data["package"], data["file"], sha256)
    return Source(
        "path", _check_file(document, root, (*path, "path"), data["path"], must_exist=must_exist), None, sha256
    )


def _check_file(document: Document, root: Path, path: KeyPath, text: str, *, must_exist: bool) -> str:
    """Return the file's path relative to the root; report a path that is absolute, absent or no file."""
    given = Path(text)
    if given.is_absolute():
        if not given.is_relative_to(root):
            document.report(
                path,
                f"{show_value(text)} is an absolute path outside the project",
                "a path relative to the project's folder",
            )
            return text
        given = given.relative_to(root)
    file = root / given
    if must_exist and not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        near = None
        if file.parent.is_dir():
            near = find_nearest(file.name, (item.name for item in file.parent.iterdir() if item.is_file()))
        nearest = (given.parent / near).as_posix() if near and what != "is a folder" else None
        document.report(path, f"the file {given.as_posix()} {what}", "a file below the folder of models.yaml", nearest)
    return given.as_posix()


def _make_input(document: Document, path: KeyPath, data: dict[str, Any]) -> InputSpec:
    shape = data.get("shape")
    low, high = data.get("range", (None, None))
    if low is not None and low >= high:
        document.report((*path, "range"), f"the range [{low}, {high}) is empty", "low below high")
    return InputSpec(
        name=str(path[-1]),
        shape=None if shape is None else tuple(int(size) for size in shape),
        dtype=data.get("dtype"),
        low=None if low is None else float(low),
        high=None if high is None else float(high),
    )


def _make_preprocess(document: Document, path: KeyPath, data: dict[str, Any]) -> Preprocess:
    color = data.get("color", "rgb")
    for key in ("mean", "std"):
        found = len(data.get(key, ()))
        if key in data and found != _CHANNELS[color]:
            document.report((*path, key), f"has {found} items", f"{_CHANNELS[color]}, one for each channel of {color}")
    scale = data.get("scale", "1/255")
    return Preprocess(
        input=data.get("input"),
        resize=data.get("resize", "stretch"),
        color=color,
        scale=float(Fraction(scale)) if isinstance(scale, str) else float(scale),
        mean=tuple(float(value) for value in data.get("mean", ())),
        std=tuple(float(value) for value in data.get("std", ())),
        layout=data.get("layout", "NCHW"),
    )


def _make_simplify(data: dict[str, Any]) -> SimplifyOptions:
    default = SimplifyOptions()
    return SimplifyOptions(
        enabled=data.get("enabled", default.enabled),
        skip=tuple(data.get("skip", default.skip)),
        seed=int(data.get("seed", default.seed)),
        rtol=float(data.get("rtol", default.rtol)),
        atol=float(data.get("atol", default.atol)),
    )


def _floats(data: dict[str, Any]) -> dict[str, float]:
    return {key: float(value) for key, value in data.items()}


def _check_globs(document: Document, path: KeyPath, data: dict[str, Any], targets: Sequence[str]) -> None:
    """Report a glob that matches no target: it is a misspelling, or a target that was removed."""
    for side in ("include", "exclude") if targets else ():
        for index, glob in enumerate(data.get(side, ())):
            if not fnmatch.filter(targets, glob):
                near = find_nearest(glob, targets)
                document.report(
                    (*path, side, index),
                    f"{show_value(glob)} matches no target of targets.yaml",
                    "a name or a glob",
                    near,
                )
