"""Load a package and run it on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tvm_ffi
from tvm import runtime

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import read_package
from tvmbuild.package.inputs import check_inputs
from tvmbuild.package.metadata import PackageInfo, TensorInfo
from tvmbuild.package.runtime.host import check_cpu, load_backend
from tvmbuild.package.runtime.pool import use_own_pool

_POOLED_ALLOCATOR = 2


def num_threads() -> int:
    """Return the size of the runtime's thread pool, which TVM_NUM_THREADS sets before the first use."""
    return int(tvm_ffi.get_global_func("runtime.NumThreads")())


class Session:
    """A loaded package. ``run`` maps inputs to outputs by their ONNX names.

    Raises TvmbuildError when the archive is damaged, or when this machine cannot run it. Not safe for use by several
    threads at once.
    """

    def __init__(self, path: Path | str) -> None:
        package = read_package(Path(path))
        self.info: PackageInfo = package.info
        check_cpu(self.info.target)
        kind = self.info.target.kind
        if kind != "llvm":
            load_backend(kind)
        self._device = runtime.cpu(0) if kind == "llvm" else runtime.device(kind, 0)
        if not self._device.exist:
            raise TvmbuildError(f"the package needs a {kind} device, and this machine has none that answers")
        with TemporaryDirectory(prefix="tvmbuild-session-") as folder:
            library = Path(folder, "mod.so")
            library.write_bytes(package.library)
            # Not runtime.load_module: it keeps the library, and its threads, until the process ends.
            self._library = tvm_ffi.load_module(str(library), keep_module_alive=False)  # mapped: the file may go
            use_own_pool(library, num_threads())
        self._vm = self._make_machine()
        self._params = self._load_params(package.params)

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and dtype of what ``run`` takes."""
        return self.info.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and dtype of what ``run`` returns."""
        return self.info.outputs

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute the outputs; TvmbuildError when an input is missing, unknown, or of another shape or dtype."""
        result = self._vm[self.info.entry](*self._arguments(inputs))
        values = [result] if isinstance(result, runtime.Tensor) else list(result)
        return {info.name: value.numpy() for info, value in zip(self.outputs, values, strict=True)}

    def bind(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], object]:
        """Return a function that runs on these inputs and waits for the outputs: no copies, for timing."""
        self._vm["save_function"](self.info.entry, "tvmbuild_bound", 1, *self._arguments(inputs))
        bound = self._vm["tvmbuild_bound"]
        if self.info.target.kind == "llvm":
            return bound  # type: ignore[no-any-return]  # tvm is not typed

        def call() -> object:
            result = bound()
            self._device.sync()
            return result

        return call

    def bind_instrumented(
        self, inputs: Mapping[str, np.ndarray], instrument: Callable[..., None]
    ) -> Callable[[], object]:
        """Return what ``bind`` does, on a virtual machine of its own that tells ``instrument`` of its calls.

        Before and after each it calls ``instrument(function, name, before, result, *arguments)``. The machine that
        ``run`` and ``bind`` use stays as fast as it is: an instrument cannot be removed again.
        """
        machine = self._make_machine()
        machine["set_instrument"](instrument)
        machine["save_function"](self.info.entry, "tvmbuild_instrumented", 1, *self._arguments(inputs))
        return machine["tvmbuild_instrumented"]  # type: ignore[no-any-return]  # tvm is not typed

    def wait(self) -> None:
        """Return when the device has done all that it was given; at once on a CPU."""
        if self.info.target.kind != "llvm":
            self._device.sync()

    def _make_machine(self) -> Any:
        machine = self._library["vm_load_executable"]()
        machine["vm_initialization"](*self._describe_devices())
        return machine

    def _arguments(self, inputs: Mapping[str, np.ndarray]) -> list[Any]:
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        check_inputs(self.info, arrays)
        arguments = [
            runtime.tensor(np.ascontiguousarray(arrays[info.name]).reshape(info.shape), device=self._device)
            for info in self.inputs
        ]
        return arguments + self._params

    def _describe_devices(self) -> list[int]:
        devices = [self._device] if self.info.target.kind == "llvm" else [self._device, runtime.cpu(0)]
        return [number for d in devices for number in (d.dlpack_device_type(), d.index, _POOLED_ALLOCATOR)]

    def _load_params(self, data: bytes) -> list[Any]:
        if self.info.params == "embedded":
            return []
        params = runtime.load_param_dict(bytearray(data))
        return [params[name].copyto(self._device) for name in sorted(str(key) for key in params)]
