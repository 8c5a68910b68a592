"""The code of a package for each size, with its weights and the virtual machines that run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import LIBRARY, Package
from tvmbuild.package.counts import cut_outputs, has_counts
from tvmbuild.package.inputs import check_inputs
from tvmbuild.package.metadata import PackageInfo
from tvmbuild.package.runtime.code import load_code
from tvmbuild.package.runtime.library import num_threads
from tvmbuild.package.runtime.machine import Machine, describe_devices
from tvmbuild.package.runtime.shared_memory import call_with_own_memory
from tvmbuild.package.runtime.tensors import copy_tensor, count_bytes, find_shared, place, read_array, to_arrays
from tvmbuild.package.runtime.thread_pool import Share, run_on_cores
from tvmbuild.package.runtime.weights import load_weights

if TYPE_CHECKING:
    from tvmbuild.package.runtime.lanes import Lane
    from tvmbuild.package.size_functions import SizeFunction


class Program:
    """A library of a package, its weights, and virtual machines: each serves one call at a time, idle ones wait here.

    A package whose shapes vary has a program for each size. Any number of threads may use one at once.
    """

    def __init__(self, info: PackageInfo, library: Any, params: Sequence[Any], device: Any, share: Share) -> None:
        """Make the first machine. ``info`` describes this size only.

        Raises TvmbuildError if library and weights do not fit together.
        """
        self.info = info
        self._library = library
        self._params = list(params)
        self._device, self._share = device, share
        self._names = [each.name for each in info.outputs]
        self._is_counted = has_counts(info.outputs)
        self._shared: dict[str, tuple[int, ...]] = {}  # function → places of outputs that share memory with an input
        self._lock = Lock()
        machine = self._make_machine()
        self._check_arity(machine)
        self._idle = [self._wrap(machine)]

    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return the outputs by name as new arrays, each with its real length."""
        return self._name(to_arrays(self.compute(inputs)))

    def compute(self, inputs: Mapping[str, Any]) -> list[tvm_ffi.Tensor]:
        """Return the outputs on the device, and after them their lengths if they depend on data."""
        arrays = self._check(inputs)
        machine = self._borrow()
        arguments = self._arguments(arrays, machine.kept)
        values = _list_tensors(machine.main(*arguments))
        # Before the machine is given back: its next user writes into the inputs' memory.
        values = self._keep_apart(self.info.entry, values, arguments[: len(self.info.inputs)])
        self._give_back(machine)  # not after an error: a machine that raised is not used again
        return values

    def call_entry(self, name: str, values: Mapping[str, Any]) -> list[np.ndarray]:
        """Call a function of the package beside ``main``, and return its outputs as new arrays."""
        machine = self._borrow()
        kept = machine.kept_by_entry.setdefault(name, {})
        arguments = [place(each, value, self._device, kept) for each, value in values.items()]
        outputs = _list_tensors(run_on_cores(machine.machine[name], self._share)(*arguments, *self._params))
        arrays = to_arrays(self._keep_apart(name, outputs, arguments))
        self._give_back(machine)
        return arrays

    def start(self, inputs: Mapping[str, Any], lane: Lane) -> Callable[[], dict[str, np.ndarray]]:
        """Start ``run`` in a lane, and return the function that waits for the outputs."""
        arrays = self._check(inputs)
        finish = self.start_entry(self.info.entry, {each.name: arrays[each.name] for each in self.info.inputs}, lane)
        return lambda: self._name(finish())

    def start_entry(self, name: str, values: Mapping[str, Any], lane: Lane) -> Callable[[], list[np.ndarray]]:
        """Start ``call_entry`` in a lane, and return the function that waits for the outputs."""
        machine, function = self._borrow(), (id(self), name)
        arguments, used = lane.place(function, values)
        call = machine.main if name == self.info.entry else run_on_cores(machine.machine[name], self._share)
        outputs = self._keep_apart(name, _list_tensors(call(*arguments, *self._params)), arguments)
        fetched = lane.fetch(function, outputs)
        self._give_back(machine)  # the kernels of its next call come after these

        def finish() -> list[np.ndarray]:
            _ = machine, used, arguments  # the kernels use them until they have ended, also if the session is closed
            return fetched()

        return finish

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], object]:
        """Return a function that runs ``main`` on these inputs, on a virtual machine of its own, without a wait."""
        machine = self._make_machine()
        machine["save_function"](self.info.entry, "tvmbuild_bound", 1, *self._arguments(self._check(inputs), {}))
        return run_on_cores(machine["tvmbuild_bound"], self._share)

    def bind_instrumented(self, inputs: Mapping[str, Any], instrument: Callable[..., None]) -> Callable[[], object]:
        """Return a function like that of ``bind``, whose virtual machine reports its calls to ``instrument``."""
        machine = self._make_machine()
        machine["set_instrument"](instrument)
        arguments = self._arguments(self._check(inputs), {})
        machine["save_function"](self.info.profiled, "tvmbuild_instrumented", 1, *arguments)
        instrumented: Callable[[], object] = machine["tvmbuild_instrumented"]
        return instrumented

    def close(self) -> None:
        """Release library and weights as soon as all running calls have ended."""
        with self._lock:
            self._library = None
            self._idle.clear()  # calls that run keep this program, and so its weights, until they end

    def _name(self, arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
        if self._is_counted:
            return cut_outputs(self.info.outputs, arrays)
        return dict(zip(self._names, arrays, strict=True))

    def _keep_apart(self, function: str, values: list[Any], arguments: Sequence[Any]) -> list[Any]:
        """Return a function's outputs, with copies in place of those that share memory with an input."""
        shared = self._shared.get(function)
        if shared is None:
            shared = self._shared[function] = find_shared(values, arguments, count_bytes(arguments))
        if not shared:
            return values
        return [copy_tensor(each) if number in shared else each for number, each in enumerate(values)]

    def _borrow(self) -> Machine:
        try:
            return self._idle.pop()  # without the lock: pop and append are atomic
        except IndexError:
            return self._wrap(self._make_machine())

    def _wrap(self, machine: Any) -> Machine:
        return Machine(machine, run_on_cores(machine[self.info.entry], self._share))

    def _give_back(self, machine: Machine) -> None:
        self._idle.append(machine)
        if self._library is None:  # closed, perhaps just now
            self._idle.clear()

    def _make_machine(self) -> Any:
        with self._lock:
            if self._library is None:
                raise TvmbuildError(f"the session of {self.info.model} is closed")
            machine = self._library["vm_load_executable"]()
            devices = describe_devices(self._device, self.info.workspace)
            call_with_own_memory(machine["vm_initialization"], devices, self._device)
        return machine

    def _check_arity(self, machine: Any) -> None:
        try:
            wanted = machine["get_function_arity"](self.info.entry)
        except (RuntimeError, ValueError) as error:
            name = self.info.entry
            raise TvmbuildError(f"the package of {self.info.model} has no function {name}", "build it again") from error
        given = len(self.info.inputs) + len(self._params)
        if wanted != given:
            raise TvmbuildError(
                f"the package of {self.info.model} does not fit together: its code takes {wanted} arrays, and there "
                f"are {len(self.info.inputs)} inputs and {len(self._params)} weights",
                "build it again",
            )

    def _check(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        arrays = {name: read_array(name, value) for name, value in inputs.items()}
        check_inputs(self.info, arrays)
        return arrays

    def _arguments(self, arrays: Mapping[str, Any], kept: dict[str, Any]) -> list[Any]:
        return [place(each.name, arrays[each.name], self._device, kept) for each in self.info.inputs] + self._params


class Programs:
    """The programs of a package, one for each size, over one pool of weights. Each is loaded when it is first used."""

    def __init__(self, package: Package, device: Any, share: Share) -> None:
        self.threads = share.threads
        self._info = package.info
        self._device, self._share = device, share
        self._code = {LIBRARY: package.library, **package.others}
        lifted = package.info.params == "lifted"
        self._weights: list[Any] | None = (
            load_weights(memoryview(package.params), device, package.places) if lifted else []
        )
        self._lock = Lock()
        self._opened: dict[str, Program] = {}

    def open(self, function: SizeFunction | None) -> Program:
        """Return the program of a size; None stands for the only one. Raises TvmbuildError if these are closed."""
        library = function.library if function else LIBRARY
        opened = self._opened.get(library)  # without the lock, because small networks take as long as the lock
        if opened is not None:
            return opened
        with self._lock:
            if self._weights is None:
                raise TvmbuildError(f"the session of {self._info.model} is closed")
            if library not in self._opened:
                info = self._info.at_size(function) if function else self._info
                params = [self._weights[place] for place in self._check(function)] if function else self._weights
                self._opened[library] = Program(info, self._load(library), params, self._device, self._share)
            return self._opened[library]

    def close(self) -> None:
        """Release libraries and weights as soon as all running calls have ended."""
        with self._lock:
            self._weights, self._code = None, {}
            opened, self._opened = list(self._opened.values()), {}
        for each in opened:
            each.close()

    def _load(self, library: str) -> Any:
        loaded, has_pool = load_code(self._code[library], self._share)
        del self._code[library]  # it may hold embedded weights
        if not has_pool:
            self.threads = num_threads()
        return loaded

    def _check(self, function: SizeFunction) -> tuple[int, ...]:
        """Return the places of a size's weights. Raises TvmbuildError if one of the weights is not there."""
        if any(place >= len(self._weights or ()) for place in function.params):
            raise TvmbuildError(
                f"the package of {self._info.model} does not fit together: it lacks weights", "build it again"
            )
        return function.params


def _list_tensors(result: Any) -> list[tvm_ffi.Tensor]:
    return [result] if isinstance(result, tvm_ffi.Tensor) else list(result)
