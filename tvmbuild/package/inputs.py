"""Inputs and outputs of a package as arrays: reading, generating, checking, writing."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import numpy as np

from tvmbuild.base.did_you_mean import find_nearest, suggest
from tvmbuild.base.file_kinds import recognise_wrapping
from tvmbuild.base.files import publish
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo, TakesInputs, TensorInfo
from tvmbuild.package.preprocess import first_line, preprocess_picture

Fill = Literal["random", "ones", "zeros"]
PICTURES = (".png", ".jpg", ".jpeg")
_UNREADABLE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error)
_REFERENCE = "input:"
"""The prefix of the names of inputs in a reference.npz, which also holds outputs."""


def check_inputs(info: TakesInputs, inputs: Mapping[str, np.ndarray]) -> None:
    """Raise TvmbuildError if an input is missing, unknown, or of another shape or dtype."""
    unknown = sorted(set(inputs) - {tensor.name for tensor in info.inputs})
    if unknown:
        names = ", ".join(tensor.name for tensor in info.inputs)
        raise TvmbuildError(f"{info.model} has no input {', '.join(unknown)}; its inputs are {names}")
    for tensor in info.inputs:
        if tensor.name not in inputs:
            raise TvmbuildError(f"{info.model} needs the input {tensor.name}: {tensor.dtype} {list(tensor.shape)}")
        value = inputs[tensor.name]
        if value.shape != tensor.shape or str(value.dtype) != tensor.dtype:
            raise TvmbuildError(
                f"the input {tensor.name} of {info.model} is {tensor.dtype} {list(tensor.shape)}, "
                f"got {value.dtype} {list(value.shape)}"
            )


def make_inputs(tensors: Sequence[TensorInfo], fill: Fill, seed: int = 0) -> dict[str, np.ndarray]:
    """Return generated inputs, equal for equal seeds: `random` is [-1, 1) for floats and 0 for all other types.

    An integer may be an index, and a random index may be out of bounds.
    """
    generator = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {}
    for tensor in tensors:
        dtype = np.dtype(tensor.dtype)
        if fill == "random" and dtype.kind == "f":
            made[tensor.name] = generator.uniform(-1, 1, tensor.shape).astype(dtype)
        else:
            made[tensor.name] = np.full(tensor.shape, fill == "ones", dtype)
    return made


def read_inputs(path: Path, info: PackageInfo) -> dict[str, np.ndarray]:
    """Return the inputs in an .npz, under their own names or under `input:<name>` beside other arrays.

    Raises TvmbuildError if the file is no .npz, or if the package does not accept its arrays.
    """
    inputs = read_arrays(path)
    check_inputs(info, inputs)
    return inputs


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz, or only the inputs of a reference.npz. Raises TvmbuildError for another file."""
    try:
        with path.open("rb") as stream, ExitStack() as stack:
            arrays = np.load(stream, allow_pickle=False)
            if not isinstance(arrays, np.lib.npyio.NpzFile):
                raise TvmbuildError(f"{path} holds one array without a name", "write it by numpy.savez(…, NAME=array)")
            stack.enter_context(arrays)
            names = [name for name in arrays.files if name.startswith(_REFERENCE)]
            return {name.removeprefix(_REFERENCE): arrays[name] for name in names or arrays.files}
    except _UNREADABLE as error:
        raise _explain(path, ".npz", "numpy.savez writes such a file", error) from error


def _explain(path: Path, form: str, remedy: str, error: Exception) -> TvmbuildError:
    kind = recognise_wrapping(path)
    reason, remedy = (f"it is {kind.name}", kind.remedy) if kind else (first_line(error), remedy)
    return TvmbuildError(f"{path} cannot be read as {form}: {reason}", remedy)


def read_input(info: PackageInfo, name: str, path: Path) -> np.ndarray:
    """Return one input from an .npy, or from a picture by the package's own preprocessing."""
    if name not in {tensor.name for tensor in info.inputs}:
        known = [tensor.name for tensor in info.inputs]
        raise TvmbuildError(
            f"{info.model} has no input {name}; its inputs are {', '.join(known)}",
            suggest(find_nearest(name, known)).strip() or None,
        )
    if path.suffix.lower() in PICTURES:
        return preprocess_picture(info, path, name)
    if path.suffix.lower() != ".npy":
        raise TvmbuildError(f"{path} is no input: expected a name that ends in .npy, {', '.join(PICTURES)}")
    try:
        with path.open("rb") as stream:
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    except _UNREADABLE as error:
        raise _explain(path, ".npy", "numpy.save writes such a file", error) from error


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Publish an .npz with the arrays under their names. Any name works; numpy.savez refuses an array called `file`."""
    try:
        with publish(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            for name, value in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, np.asanyarray(value), allow_pickle=False)
    except OSError as error:
        raise TvmbuildError(f"{path} cannot be written: {error.strerror or error}") from error
