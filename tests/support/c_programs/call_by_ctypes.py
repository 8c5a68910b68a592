"""A Python program without tvmbuild: it runs packages by ctypes. Arguments: LIBRARY JOB PACKAGE … as in main()."""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint8, c_void_p, pointer
from typing import Any, ClassVar

import numpy as np

Fields = list[tuple[str, Any]]


class LoadOptions(ctypes.Structure):
    """tvmbuild_load_options."""

    _fields_: ClassVar[Fields] = [
        ("size", c_size_t),
        ("threads", c_int32),
        ("priority", c_int32),
        ("cores", POINTER(c_int32)),
        ("core_count", c_size_t),
    ]


class PackageInfo(ctypes.Structure):
    """tvmbuild_package_info."""

    _fields_: ClassVar[Fields] = [
        ("size", c_size_t),
        *((name, c_char_p) for name in ("model", "target", "kind")),
        ("labels", POINTER(c_char_p)),
        *((f"{name}_count", c_size_t) for name in ("label", "input", "output", "frame", "result", "size")),
        *((name, c_int32) for name in ("cores", "tasks", "covered")),
    ]


class TensorInfo(ctypes.Structure):
    """tvmbuild_tensor_info."""

    _fields_: ClassVar[Fields] = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("dtype", c_char_p),
        ("shape", POINTER(c_int64)),
        ("rank", c_size_t),
        ("bytes", c_size_t),
        ("counted", POINTER(c_size_t)),
        ("counted_count", c_size_t),
    ]


class FrameInfo(ctypes.Structure):
    """tvmbuild_frame_info."""

    _fields_: ClassVar[Fields] = [
        ("size", c_size_t),
        ("encoding", c_char_p),
        ("interpolation", c_char_p),
        *((name, c_int32) for name in ("height", "width", "stride")),
        *((f"crop_{name}", c_int32) for name in ("top", "left", "height", "width")),
        ("bytes", c_size_t),
    ]


class ResultInfo(ctypes.Structure):
    """tvmbuild_result_info."""

    _fields_: ClassVar[Fields] = [
        ("size", c_size_t),
        ("kind", c_char_p),
        ("score", POINTER(c_double)),
        ("overlap", POINTER(c_double)),
        *((name, c_int32) for name in ("most", "points", "values")),
        ("blank", c_char_p),
        ("labels", POINTER(c_char_p)),
        ("label_count", c_size_t),
        ("outputs", POINTER(c_char_p)),
        ("output_count", c_size_t),
        ("in_input", c_int32),
    ]


class SizeInfo(ctypes.Structure):
    """tvmbuild_size_info."""

    _fields_: ClassVar[Fields] = [
        ("size", c_size_t),
        ("letters", POINTER(c_char_p)),
        ("values", POINTER(c_int64)),
        ("count", c_size_t),
    ]


class PreprocessInfo(ctypes.Structure):
    """tvmbuild_preprocess_info."""

    _fields_: ClassVar[Fields] = [
        ("size", c_size_t),
        *((name, c_char_p) for name in ("input", "resize", "color", "layout", "align")),
        ("scale", c_double),
        ("crop_pct", c_double),
        ("mean", POINTER(c_double)),
        ("std", POINTER(c_double)),
        ("mean_count", c_size_t),
        ("std_count", c_size_t),
        ("fill", c_int32),
        ("place", c_int32),
    ]


class Array(ctypes.Structure):
    """tvmbuild_array."""

    _fields_: ClassVar[Fields] = [
        ("data", c_void_p),
        ("shape", POINTER(c_int64)),
        ("rank", c_size_t),
        ("dtype", c_char_p),
    ]


class Class(ctypes.Structure):
    """tvmbuild_class."""

    _fields_: ClassVar[Fields] = [("score", c_float), ("index", c_int32), ("label", c_char_p)]


LAYOUTS = {
    "tvmbuild_load_options": LoadOptions,
    "tvmbuild_package_info": PackageInfo,
    "tvmbuild_tensor_info": TensorInfo,
    "tvmbuild_frame_info": FrameInfo,
    "tvmbuild_result_info": ResultInfo,
    "tvmbuild_size_info": SizeInfo,
    "tvmbuild_preprocess_info": PreprocessInfo,
    "tvmbuild_array": Array,
    "tvmbuild_class": Class,
}


class Library:
    """libtvmbuild.so: each function raises RuntimeError with its message, and returns what it writes."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.tvmbuild_last_error.restype = c_char_p

    def __getattr__(self, name: str) -> Callable[..., None]:
        function = getattr(self._library, f"tvmbuild_{name}")

        def call(*arguments: object) -> None:
            status = function(*arguments)
            if status != 0:
                raise RuntimeError(status, self._library.tvmbuild_last_error().decode())

        return call

    def load(self, *paths: str, options: LoadOptions | None = None) -> c_void_p:
        """Load the first package that can be run."""
        session = c_void_p()
        words = (c_char_p * len(paths))(*(path.encode() for path in paths))
        self.__getattr__("load")(words, c_size_t(len(paths)), options and byref(options), byref(session))
        return session

    def describe(self, session: c_void_p) -> c_void_p:
        """Return the handle of the session's metadata."""
        package = c_void_p()
        self.__getattr__("describe")(session, byref(package))
        return package

    def ask(self, function: str, package: c_void_p, kind: Any, *place: int) -> Any:
        """Return the struct that a function writes."""
        info = kind(ctypes.sizeof(kind))
        self.__getattr__(function)(package, *map(c_size_t, place), byref(info))
        return info

    def at(self, session: c_void_p, size: SizeInfo) -> c_void_p:
        """Return the session of one size."""
        part = c_void_p()
        self.__getattr__("at")(session, byref(size), byref(part))
        return part

    def view(self, tensor: c_void_p) -> np.ndarray:
        """Return a tensor's memory."""
        array, on_host = Array(), c_int32()
        self.tensor_view(tensor, byref(array), byref(on_host))
        assert on_host.value == 1
        return as_numpy(array)

    def run(self, session: c_void_p, values: list[np.ndarray]) -> list[np.ndarray]:
        """Run on arrays; return copies of the outputs."""
        arrays = (Array * len(values))()
        kept = []
        for array, value in zip(arrays, values, strict=True):
            shape = (c_int64 * value.ndim)(*value.shape)
            kept.append(shape)
            array.data, array.shape, array.rank = value.ctypes.data, shape, value.ndim
            array.dtype = value.dtype.name.encode()
        outputs, count = POINTER(Array)(), c_size_t()
        self.__getattr__("run")(session, arrays, c_size_t(len(values)), byref(outputs), byref(count))
        return [as_numpy(outputs[number]).copy() for number in range(count.value)]


def as_numpy(array: Array) -> np.ndarray:
    """Return a view of the array."""
    shape = tuple(array.shape[axis] for axis in range(array.rank))
    dtype = np.dtype(array.dtype.decode())
    memory = (c_uint8 * (int(np.prod(shape)) * dtype.itemsize)).from_address(array.data)
    return np.frombuffer(memory, dtype).reshape(shape)


def run_arrays(library: Library, package: str, folder: str) -> None:
    """Run on the arrays in FOLDER/inputs.npz, several times by four threads, and write FOLDER/outputs.npz."""
    with np.load(f"{folder}/inputs.npz") as stored:
        values = {name: stored[name] for name in stored}
    session = library.load(package, options=LoadOptions(ctypes.sizeof(LoadOptions), threads=1, priority=2))
    threads = c_int32()
    library.threads(session, byref(threads))
    described = library.describe(session)
    info = library.ask("package_describe", described, PackageInfo)
    names = [library.ask("package_input", described, TensorInfo, at).name.decode() for at in range(info.input_count)]
    first = library.run(session, [values[name] for name in names])
    wrong = []

    def repeat() -> None:
        for _ in range(20):
            library.run(session, [values[name] for name in names])
            # The outputs belong to the session, so another thread's run may be writing them: only errors count here.

    workers = [threading.Thread(target=repeat) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    again = library.run(session, [values[name] for name in names])
    wrong += [at for at, value in enumerate(first) if not np.array_equal(value, again[at])]
    sizes = [library.ask("package_size", described, SizeInfo, at) for at in range(info.size_count)]
    listed = [{each.letters[i].decode(): each.values[i] for i in range(each.count)} for each in sizes]
    np.savez(f"{folder}/outputs.npz", *first)
    counted = [
        [each.counted[i] for i in range(each.counted_count)]
        for each in (library.ask("package_output", described, TensorInfo, at) for at in range(info.output_count))
    ]
    print(json.dumps({"threads": threads.value, "wrong": wrong, "sizes": listed, "counted": counted}))


def run_tensors(library: Library, package: str, folder: str) -> None:
    """Do the same by tensors, with outputs in place as inputs of DLPack, and a picture's classes."""
    session = library.load(f"{folder}/absent.tar", package)
    lines = c_char_p()
    library.passed_over(session, byref(lines))
    passed_over = (lines.value or b"").decode()
    described = library.describe(session)
    tensor, array, on_host = c_void_p(), Array(), c_int32()
    info = library.ask("package_input", described, TensorInfo, 0)
    library.tensor_create(info.name, info.dtype, info.shape, c_size_t(info.rank), byref(tensor))
    with np.load(f"{folder}/inputs.npz") as stored:
        library.view(tensor)[...] = stored[info.name.decode()]
    library.bind(session, byref(tensor), c_size_t(1))
    library.call(session)
    made, there, kept = (c_void_p * 1)(), (c_void_p * 1)(), c_void_p()
    library.outputs(session, made, c_size_t(1))
    library.outputs_in_place(session, there, c_size_t(1))
    library.tensor_view(c_void_p(there[0]), byref(array), byref(on_host))
    managed, taken = c_void_p(), c_void_p()
    library.tensor_to_dlpack(c_void_p(there[0]), byref(managed))
    library.tensor_from_dlpack(b"shared", managed, byref(taken))
    library.tensor_to_host(taken, byref(kept))
    output = library.view(c_void_p(made[0])).copy()
    same = [np.array_equal(output, library.view(each)) for each in (c_void_p(there[0]), taken, kept)]
    library.view(c_void_p(made[0]))[...] = 0
    library.copy_outputs(session, made, c_size_t(1))
    same.append(np.array_equal(output, library.view(c_void_p(made[0]))))
    shape, rank = POINTER(c_int64)(), c_size_t()
    library.output_shape(session, c_size_t(0), byref(shape), byref(rank))
    same.append([shape[axis] for axis in range(rank.value)] == list(output.shape))
    on_device = c_void_p()
    library.tensor_to_device(session, tensor, byref(on_device))
    np.savez(f"{folder}/outputs.npz", output)

    pixels = np.fromfile(f"{folder}/picture.raw", np.uint8).reshape(40, 30, 3)
    library.preprocess(described, c_void_p(pixels.ctypes.data), 30, 40, 3, None, byref(on_device))
    rules = library.ask("package_preprocess", described, PreprocessInfo)
    again = c_void_p()
    library.preprocess(described, c_void_p(pixels.ctypes.data), 30, 40, 3, pointer(rules), byref(again))
    same.append(np.array_equal(library.view(on_device), library.view(again)))
    library.bind(session, byref(on_device), c_size_t(1))
    library.call(session)
    library.outputs(session, made, c_size_t(1))
    classes, count = (Class * 3)(), c_size_t()
    library.rank_classes(described, c_void_p(made[0]), c_size_t(3), classes, byref(count))
    best = [[each.index, each.score, each.label.decode()] for each in classes[: count.value]]
    library.close(session)
    print(json.dumps({"same": same, "on host": on_host.value, "passed over": passed_over, "best": best}))


def run_sizes(library: Library, package: str, folder: str) -> None:
    """Run each size by its own session, after the whole session is closed, and write FOLDER/NUMBER.npz of each."""
    session = library.load(package)
    described = library.describe(session)
    info = library.ask("package_describe", described, PackageInfo)
    sizes = [library.ask("package_size", described, SizeInfo, at) for at in range(info.size_count)]
    parts, again = ([library.at(session, size) for size in sizes] for _ in range(2))
    letters, values = (c_char_p * 2)(b"B", b"T"), (c_int64 * 2)(3, 11)
    refused = [explain(library.at, session, SizeInfo(ctypes.sizeof(SizeInfo), letters, values, 2))]
    library.close(session)
    for number, part in enumerate(parts):
        inputs = {}
        for place in range(info.input_count):
            each = library.ask("package_input", library.describe(part), TensorInfo, place)
            shape = [each.shape[axis] for axis in range(each.rank)]
            inputs[each.name.decode()] = np.ones(shape, each.dtype.decode())
        given = list(inputs.values())
        outputs = library.run(part, given)
        library.close(part)
        later = library.run(again[number], given)
        assert all(np.array_equal(*both) for both in zip(outputs, later, strict=True))
        np.savez(f"{folder}/{number}.npz", *outputs, allow_pickle=False, **inputs)
        shorter = [np.ascontiguousarray(value[..., 1:]) for value in given]
        refused.append(explain(library.run, again[number], shorter))
        library.close(again[number])
    print(json.dumps(refused))


def explain(call: Callable[..., object], *arguments: object) -> object:
    """Return the status and the message of a call that fails."""
    try:
        call(*arguments)
    except RuntimeError as error:
        return error.args
    raise AssertionError("it did not fail")


def list_layouts() -> None:
    """Print sizes and offsets of this program's structs."""
    for name, kind in LAYOUTS.items():
        fields = [[field[0], getattr(kind, field[0]).offset, getattr(kind, field[0]).size] for field in kind._fields_]
        print(json.dumps([name, ctypes.sizeof(kind), fields]))


if __name__ == "__main__":
    jobs = {"arrays": run_arrays, "tensors": run_tensors, "sizes": run_sizes}
    if sys.argv[2] == "layouts":
        list_layouts()
    else:
        jobs[sys.argv[2]](Library(sys.argv[1]), *sys.argv[3:])
