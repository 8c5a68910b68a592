"""Reading, generating, checking and writing of a package's inputs and outputs as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from tvmbuild.base.lazy_modules import import_lazily
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.metadata import PackageInfo, TakesInputs, TensorInfo

if TYPE_CHECKING:
    import zipfile
    import zlib

    from tvmbuild.base import did_you_mean, file_kinds, files
    from tvmbuild.package import preprocess
else:  # for files and mistakes
    zipfile = import_lazily("zipfile")
    zlib = import_lazily("zlib")
    did_you_mean = import_lazily("tvmbuild.base.did_you_mean")
    file_kinds = import_lazily("tvmbuild.base.file_kinds")
    files = import_lazily("tvmbuild.base.files")
    preprocess = import_lazily("tvmbuild.package.preprocess")

Fill = Literal["random", "ones", "zeros"]
PICTURES = (".png", ".jpg", ".jpeg")
_REFERENCE = "input:"
"""The prefix of the inputs' names in a reference.npz, which also holds outputs."""
_GUESS = "pickled (object) data"
"""NumPy's guess about a file of any other kind, which it offers to load unsafely."""


def check_inputs(info: TakesInputs, inputs: Mapping[str, np.ndarray]) -> None:
    """Raise TvmbuildError if an input of the package is missing, or an array is unknown or of another shape or type."""
    for tensor in info.inputs:
        value = inputs.get(tensor.name)
        if value is None:
            _refuse_unknown(info, inputs)
            raise TvmbuildError(f"{info.model} needs the input {tensor.name}: {tensor.dtype} {list(tensor.shape)}")
        _check_form("input", info, tensor, value)
    if len(inputs) != len(info.inputs):
        _refuse_unknown(info, inputs)


def check_outputs(info: PackageInfo, outputs: Mapping[str, np.ndarray]) -> None:
    """Raise TvmbuildError if an output of the package is missing, or has another shape or type."""
    for tensor in info.outputs:
        value = outputs.get(tensor.name)
        if value is None:
            raise TvmbuildError(
                f"the output {tensor.name} of {info.model} is {tensor.dtype} {list(tensor.shape)}, there is none",
                "give what `run` returns",
            )
        _check_form("output", info, tensor, value)


def _check_form(side: str, info: TakesInputs, tensor: TensorInfo, value: np.ndarray) -> None:
    """Raise TvmbuildError if an array does not have the shape and type of an input or an output."""
    if value.shape != tensor.shape or value.dtype != tensor.dtype:  # str(value.dtype) would take 3 µs
        raise TvmbuildError(
            f"the {side} {tensor.name} of {info.model} is {tensor.dtype} {list(tensor.shape)}, "
            f"got {value.dtype} {list(value.shape)}"
        )


def _refuse_unknown(info: TakesInputs, inputs: Mapping[str, np.ndarray]) -> None:
    unknown = sorted(set(inputs) - {tensor.name for tensor in info.inputs})
    if unknown:
        names = ", ".join(tensor.name for tensor in info.inputs)
        raise TvmbuildError(f"{info.model} has no input {', '.join(unknown)}; its inputs are {names}")


def make_inputs(tensors: Sequence[TensorInfo], fill: Fill, seed: int = 0) -> dict[str, np.ndarray]:
    """Return generated inputs by name. Equal seeds give equal inputs.

    `random` gives floating-point numbers in [-1, 1), and 0 for all other types: an integer may be an index, and a
    random index may be out of bounds.
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
    """Return the package's inputs in an .npz, which are named `<name>`, or `input:<name>` as in a reference.npz.

    Raises TvmbuildError if the file is not an .npz, or if its arrays do not fit the package's inputs.
    """
    inputs = read_arrays(path)
    check_inputs(info, inputs)
    return inputs


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays in an .npz by name. If some are named `input:<name>`, return only these, by `<name>`.

    Raises TvmbuildError if the file cannot be read as an .npz.
    """
    try:
        with path.open("rb") as stream, ExitStack() as stack:
            arrays = np.load(stream, allow_pickle=False)
            if not isinstance(arrays, np.lib.npyio.NpzFile):
                raise TvmbuildError(f"{path} holds one array without a name", "write it by numpy.savez(…, NAME=array)")
            stack.enter_context(arrays)
            names = [name for name in arrays.files if name.startswith(_REFERENCE)]
            return {name.removeprefix(_REFERENCE): arrays[name] for name in names or arrays.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _explain(path, ".npz", "numpy.savez writes such a file", error) from error


def _explain(path: Path, form: str, remedy: str, error: Exception) -> TvmbuildError:
    kind = file_kinds.recognise_wrapping(path)
    reason, remedy = (f"it is {kind.name}", kind.remedy) if kind else (preprocess.first_line(error), remedy)
    if _GUESS in reason:
        reason = "it is no file of NumPy's"
    return TvmbuildError(f"{path} cannot be read as {form}: {reason}", remedy)


def read_input(info: PackageInfo, name: str, path: Path) -> np.ndarray:
    """Return the input ``name`` from an .npy, or from a picture by the package's preprocessing rules.

    Raises TvmbuildError if the package has no such input, or if the file cannot be read.
    """
    if name not in {tensor.name for tensor in info.inputs}:
        known = [tensor.name for tensor in info.inputs]
        raise TvmbuildError(
            f"{info.model} has no input {name}; its inputs are {', '.join(known)}",
            did_you_mean.suggest(did_you_mean.find_nearest(name, known)).strip() or None,
        )
    if path.suffix.lower() in PICTURES:
        return preprocess.preprocess_picture(info, path, name)
    if path.suffix.lower() != ".npy":
        raise TvmbuildError(f"{path} is not an input: expected a name that ends in .npy, {', '.join(PICTURES)}")
    return read_array_file(path)


def read_array_file(path: Path) -> np.ndarray:
    """Return the array in an .npy. Raises TvmbuildError if the file cannot be read as one."""
    try:
        with path.open("rb") as stream:
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _explain(path, ".npy", "numpy.save writes such a file", error) from error


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays to an .npz under their names. The file appears at once, complete.

    Unlike numpy.savez, this accepts an array called `file`. Raises TvmbuildError if the file cannot be written.
    """
    try:
        with files.publish(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            for name, value in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, np.asanyarray(value), allow_pickle=False)
    except OSError as error:
        raise TvmbuildError(f"{path} cannot be written: {error.strerror or error}") from error
