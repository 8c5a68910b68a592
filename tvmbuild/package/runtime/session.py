"""The session, a loaded package that maps arrays of inputs to arrays of outputs."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import tvm_ffi

from tvmbuild.base.lazy_modules import import_lazily
from tvmbuild.errors import TvmbuildError
from tvmbuild.package.archive import map_package
from tvmbuild.package.inputs import make_inputs
from tvmbuild.package.metadata import PackageInfo, PackageTarget, TensorInfo
from tvmbuild.package.runtime.device_errors import EXPLAINED_ERRORS
from tvmbuild.package.runtime.foreign_stream import order_stream
from tvmbuild.package.runtime.host import check_card, check_cpu, find_device
from tvmbuild.package.runtime.lanes import BackgroundCalls, Lane
from tvmbuild.package.runtime.library import call, load_runtime
from tvmbuild.package.runtime.program import Program, Programs
from tvmbuild.package.runtime.tensors import host_array, place, read_array, to_array
from tvmbuild.package.runtime.thread_pool import Wish, choose_share

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tvmbuild.package import frames as entries
    from tvmbuild.package import preprocess, result_arrays, timing
    from tvmbuild.package.archive import EarlyMap
    from tvmbuild.package.pack import Packed
    from tvmbuild.package.preprocess import Picture
    from tvmbuild.package.results import Results
    from tvmbuild.package.runtime import fitting, frame_calls
    from tvmbuild.package.runtime.call_queue import Finish
    from tvmbuild.package.runtime.fitting import Fitted
    from tvmbuild.package.runtime.frame_calls import FrameOptions
    from tvmbuild.package.size_functions import SizeFunction
    from tvmbuild.package.timing import Latency
else:  # a session that only calls `run` starts without them
    entries = import_lazily("tvmbuild.package.frames")
    preprocess = import_lazily("tvmbuild.package.preprocess")
    result_arrays = import_lazily("tvmbuild.package.result_arrays")
    timing = import_lazily("tvmbuild.package.timing")
    fitting = import_lazily("tvmbuild.package.runtime.fitting")
    frame_calls = import_lazily("tvmbuild.package.runtime.frame_calls")


class Session:
    """A loaded package. ``run`` maps inputs to outputs by their ONNX names. Any number of threads may use it at once.

    The arguments are those of `tvmbuild.load`. Raises TvmbuildError if the package is damaged, or if this machine
    cannot run it.
    """

    def __init__(
        self,
        path: Path | str | Packed | EarlyMap,
        threads: int | None = None,
        *,
        cores: Collection[int] | Literal["fastest"] | None = None,
        priority: int = 0,
    ) -> None:
        package, self._file = map_package(Path(path)) if isinstance(path, (str, Path)) else path.map()
        self.info: PackageInfo = package.info
        check_cpu(self.info.target)
        load_runtime()
        self._device = find_device(self.info.target.kind)
        if self.info.target.kind == "cuda":
            check_card(self.info.target, self._device)
        self.passed_over: Mapping[str, str] = {}  # path → reason, of packages that `tvmbuild.load` tried before
        self._calls = BackgroundCalls(self._device)
        self._known: fitting.Known = {}
        self._function = self.info.sizes.functions[-1] if self.info.sizes else None
        self._share = choose_share(self.info, Wish(threads, cores, priority))
        with EXPLAINED_ERRORS:
            self._programs = Programs(package, self._device, self._share)
            self._open()
        self.threads = self._programs.threads

    @property
    def device(self) -> Any:
        """The device on which the package runs: a `tvm_ffi.Device`."""
        return self._device

    @property
    def target(self) -> PackageTarget:
        """The target for which the package is built; `target.name` is its name in targets.yaml."""
        return self.info.target

    @property
    def metadata(self) -> PackageInfo:
        """All contents of the package's mod.json."""
        return self.info

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The name, shape and dtype of each input of ``run``."""
        return self.info.inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The name, shape and dtype of each output of ``run``."""
        return self.info.outputs

    @property
    def sizes(self) -> tuple[dict[str, int], ...]:
        """The sizes of a package whose shapes vary, each as letter → value, the smallest first. Others have none.

        ``inputs`` and ``outputs`` are those of the largest size. ``run`` takes the smallest size that fits; frames and
        pictures are for the largest, or for that of ``at``.
        """
        return tuple(dict(each.values) for each in self.info.sizes.functions) if self.info.sizes else ()

    def at(self, size: Mapping[str, int]) -> Session:
        """Return a session of one of ``sizes`` only, which shares code, weights and threads with this one.

        Its frames, pictures and results are for this size. Both are closed together. Raises TvmbuildError if the
        package has no such size.
        """
        function = self._find(size)
        made = copy.copy(self)
        made.info, made._function = self.info.at_size(function), function  # noqa: SLF001
        made._calls = BackgroundCalls(self._device)  # noqa: SLF001
        return made

    def _find(self, size: Mapping[str, int]) -> SizeFunction:
        """Return the function of a size. Raises TvmbuildError if the package has no such size."""
        sizes = self.info.sizes
        if sizes is None or size not in self.sizes:
            known = sizes.describe() if sizes else "it has one shape"
            raise TvmbuildError(f"{self.info.model} has no size {dict(size)}", known)
        return sizes.functions[self.sizes.index(size)]

    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Run the model on ``inputs`` (name → array) and return the outputs as new arrays, by name.

        An output whose length depends on data has its real length, which is at most that in ``outputs``. Inputs are
        NumPy arrays, or objects that DLPack can share. An input on the package's device is used without a copy if it is
        contiguous and aligned to 64 bytes, as the arrays from ``empty`` are. A package with sizes pads inputs between
        two sizes to the larger one, and cuts the outputs, along letters for which the build has shown that this is
        harmless. Along a letter with a range, it runs parts of them. Raises TvmbuildError if an input does not fit.
        """
        with EXPLAINED_ERRORS:
            if self.info.sizes is None:
                return self._open().run(inputs)
            parts = fitting.fit(self.info, inputs, self._known)
            if len(parts) > 1:
                return self._run_parts(parts)
            return parts[0].cut(self._open(parts[0].function).run(parts[0].inputs))

    def submit(self, inputs: Mapping[str, Any], *, newest: bool = False) -> Future[dict[str, np.ndarray]]:
        """Return at once with the future of ``run``, which a thread of this session calls, in order.

        The inputs must not change until it is done. One call runs; on a GPU three do, and copies overlap kernels.
        While a further one waits, this waits; if ``newest``, the waiting call is cancelled instead, and the new one is
        next when the others are done. Raises TvmbuildError if the session is closed, or if a future's callback waits.
        """
        return self._calls.submit(functools.partial(self._start, inputs), newest=newest)

    def _start(self, inputs: Mapping[str, Any], lane: Lane | None) -> Finish:
        parts = [] if lane is None else fitting.fit(self.info, inputs, self._known)
        if lane is None or len(parts) > 1:
            return functools.partial(self.run, inputs)
        finish = self._open(parts[0].function).start(parts[0].inputs, lane)
        return lambda: parts[0].cut(finish())

    def run_on_device(self, inputs: Mapping[str, Any], *, stream: Any = None) -> dict[str, tvm_ffi.Tensor]:
        """Run the model as ``run`` does, and return the outputs as tensors that stay on the package's device.

        Other sessions on this device accept the tensors as inputs, and other libraries can share them by DLPack. They
        are ready when this returns, and must not be written to. They remain valid and unchanged when the session runs
        again or is closed. An output whose length depends on data has its largest length, with zeros after what
        ``run`` would return. Outputs for padded inputs have the shape of the larger size. Inputs that are run in parts
        have their outputs on a CPU only; on other devices, this raises TvmbuildError. With another library's CUDA
        ``stream`` (PyTorch's, one with ``__cuda_stream__``, or its handle), the kernels wait for the work on it so far,
        and later work on it waits for the outputs, but this does not: inputs in host memory must not change until then.
        """
        with EXPLAINED_ERRORS:
            parts = fitting.fit(self.info, inputs, self._known)
            with order_stream(self._device, stream):
                if len(parts) > 1:
                    fitting.check_parts(self.info)
                    return {name: tvm_ffi.from_dlpack(value) for name, value in self._run_parts(parts).items()}
                program, fitted = self._open(parts[0].function), parts[0]
                values = program.compute(fitted.inputs)
            if stream is None:
                self.wait()
        return {each.name: value for each, value in zip(program.info.outputs, values, strict=False)}

    def to_device(self, array: Any) -> tvm_ffi.Tensor:
        """Return an array as a tensor on the package's device, for an input that is used several times.

        It shares the array's memory if ``run`` would use the array without a copy; else it is a copy.
        """
        with EXPLAINED_ERRORS:
            tensor = place("tensor", read_array("tensor", array), self._device, {})
            self.wait()  # the caller may change its array as soon as this returns
        return tensor

    def to_host(self, tensor: tvm_ffi.Tensor) -> np.ndarray:
        """Return a copy of a tensor from ``run_on_device`` or ``to_device`` as a NumPy array."""
        with EXPLAINED_ERRORS:
            return to_array(tensor)

    def empty(self, name: str, size: Mapping[str, int] | None = None) -> np.ndarray:
        """Return an uninitialised array with the shape and dtype of an input, which a CPU package uses without a copy.

        For CUDA and Vulkan it is in memory that the device copies from by itself: a copy takes half the time or less,
        and an integrated card (Jetson) reads it in place. Do not write into it before the call is done. ``size`` is one
        of ``sizes``, by default the largest. Raises TvmbuildError if the package has no such input or size.
        """
        for info in self.inputs if size is None else self.info.at_size(self._find(size)).inputs:
            if info.name == name:
                return self._empty(info.shape, info.dtype)
        known = ", ".join(info.name for info in self.inputs)
        raise TvmbuildError(f"{self.info.model} has no input {name}; its inputs are {known}")

    def empty_frame(self, number: int = 0) -> np.ndarray:
        """Return an uninitialised array for the bytes of a frame, by its number in `metadata.frames`.

        It is like that of ``empty``. Raises TvmbuildError if the package has no such frame.
        """
        return self._empty(frame_calls.find_shape(self.info, number), "uint8")

    def _empty(self, shape: Sequence[int], dtype: str) -> np.ndarray:
        with EXPLAINED_ERRORS:
            return host_array(shape, dtype, self._device)

    def preprocess(self, picture: Picture, name: str | None = None) -> np.ndarray:
        """Convert a picture into the array for an input, by the package's preprocessing rules.

        ``picture`` is an image of Pillow, a uint8 array or a file's path. ``name`` may be None, or the input's name.
        Raises TvmbuildError if the package has no rules for this input, or if the picture cannot be read.
        """
        return preprocess.preprocess_picture(self.info, picture, name)

    def run_frame(
        self,
        frame: Any,
        encoding: str | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        score: float | None = None,
        overlap: float | None = None,
    ) -> Results | dict[str, np.ndarray]:
        """Run the model on a camera's frame, and return its results (`package.results`), the best first.

        ``frame`` is the uint8 array of a frame's bytes, in one of the forms of `metadata.frames`; ``encoding`` is
        needed only if several of them have its shape. ``inputs`` are the model's other inputs. ``score`` and
        ``overlap`` replace the thresholds of the first result that has them. A package without `postprocess` returns
        the model's outputs by name, as ``run`` does. Raises TvmbuildError if a frame or input does not fit.
        """
        with EXPLAINED_ERRORS:
            options = frame_calls.FrameOptions(encoding, inputs, score, overlap)
            call = frame_calls.read_call(self.info, frame, options)
            return frame_calls.read_arrays(self.info, self._open().call_entry(*call))

    def submit_frame(
        self, frame: Any, *, newest: bool = False, **options: Any
    ) -> Future[Results | dict[str, np.ndarray]]:
        """Return at once with the future of ``run_frame`` with these ``options``, as ``submit`` does for ``run``."""
        asked = frame_calls.FrameOptions(**options)
        return self._calls.submit(functools.partial(self._start_frame, frame, asked), newest=newest)

    def _start_frame(self, frame: Any, options: FrameOptions, lane: Lane | None) -> Finish:
        if lane is None:
            return functools.partial(self.run_frame, frame, **vars(options))
        finish = self._open().start_entry(*frame_calls.read_call(self.info, frame, options), lane)
        return lambda: frame_calls.read_arrays(self.info, finish())

    def run_picture(
        self,
        picture: Picture,
        *,
        inputs: Mapping[str, Any] | None = None,
        score: float | None = None,
        overlap: float | None = None,
    ) -> Results:
        """Run the model on a picture of any size, and return its results, with places in the picture's pixels.

        ``picture`` is prepared as by ``preprocess``; ``inputs`` are the model's other inputs. Maps and masks are drawn
        in the size of the network's input, and each pixel of the picture has the value of the nearest one; with
        `resolution: input` they stay in that size. Raises TvmbuildError if the package has no `postprocess`.
        """
        result_arrays.require_postprocess(self.info)
        image = preprocess.open_picture(picture)
        name, geometry = frame_calls.place_picture(self.info, image)
        with EXPLAINED_ERRORS:
            values = self._open().compute({name: self.preprocess(image), **frame_calls.read_others(self.info, inputs)})
        outputs = {info.name: value for info, value in zip(self.outputs, values, strict=False)}
        return self.make_results(outputs, geometry, score=score, overlap=overlap)

    def make_results(
        self,
        outputs: Mapping[str, Any],
        geometry: np.ndarray | None = None,
        *,
        score: float | None = None,
        overlap: float | None = None,
    ) -> Results:
        """Return the results in the model's outputs, which ``run`` or ``run_on_device`` has returned.

        ``geometry`` maps places to a frame (`package.frames.find_geometry`); with None they are in the input's pixels.
        Raises TvmbuildError if the package has no `postprocess`.
        """
        asked = result_arrays.require_postprocess(self.info)
        place = frame_calls.read_geometry(geometry)
        values = frame_calls.prefix("output", frame_calls.read_outputs(self.info, outputs))
        values |= {
            **frame_calls.prefix("thresholds", result_arrays.make_thresholds(asked, score, overlap)),
            "geometry": place,
        }
        with EXPLAINED_ERRORS:
            arrays = self._open().call_entry(entries.POSTPROCESS, values)
        return result_arrays.read_results(self.info, result_arrays.Placed(arrays, None if geometry is None else place))

    def prepare_frame(self, frame: Any, encoding: str | None = None) -> np.ndarray:
        """Return the model's input that ``run_frame`` makes from a frame, computed on the package's device."""
        with EXPLAINED_ERRORS:
            number, value = frame_calls.read_frame(self.info, frame, encoding)
            return self._open().call_entry(entries.prepare_entry(number), {"frame": value})[0]

    def benchmark(
        self, inputs: Mapping[str, Any] | None = None, *, repeat: int | None = None, number: int = 1
    ) -> Latency:
        """Return the time of calls, after a warm-up of half a second. The outputs are not copied.

        It takes ``repeat`` samples of ``number`` calls each; by default as many samples as fit into 10 s, from 5 to 50,
        of generated inputs. Unlike `tvmbuild run --print-time`, this method does not take the device's lock.
        """
        function = self.bind(make_inputs(self.inputs, "random") if inputs is None else inputs)
        call_ms = timing.warm_up(function, timing.WARM_UP_S)
        return timing.summarize(
            timing.time_calls(function, number, repeat or timing.count_samples(call_ms * number)), number
        )

    def close(self) -> None:
        """Release library, threads and weights as soon as all running calls have ended. Cancel submitted ones."""
        self._calls.close()
        self._programs.close()

    def __enter__(self) -> Session:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def bind(self, inputs: Mapping[str, Any]) -> Callable[[], object]:
        """Return a function that runs the model on these inputs and waits for the outputs. It is meant for timing.

        The function copies neither inputs nor outputs. It has its own virtual machine, which serves one call at a time.
        Inputs that are run in parts are cut and joined in each call, as ``run`` does. Raises TvmbuildError if the
        inputs do not fit.
        """
        with EXPLAINED_ERRORS:
            parts = fitting.fit(self.info, inputs, self._known)
            if len(parts) > 1:
                return lambda: self._run_parts(parts)
            bound = self._open(parts[0].function).bind(parts[0].inputs)
        if not self.info.target.on_gpu:
            return bound

        def run_and_wait() -> object:
            with EXPLAINED_ERRORS:
                result = bound()
                self.wait()
            return result

        return run_and_wait

    def bind_instrumented(self, inputs: Mapping[str, Any], instrument: Callable[..., None]) -> Callable[[], object]:
        """Return a function like that of ``bind``, whose virtual machine reports its calls to ``instrument``.

        Before and after each call, the machine calls ``instrument(function, name, before, result, *arguments)``.
        """
        parts = fitting.fit(self.info, inputs, self._known)
        bound = [self._open(each.function).bind_instrumented(each.inputs, instrument) for each in parts]
        return bound[0] if len(bound) == 1 else lambda: [each() for each in bound]

    def wait(self) -> None:
        """Wait until the device has done all its work. On a CPU, there is nothing to wait for."""
        if self.info.target.on_gpu:
            with EXPLAINED_ERRORS:
                call("runtime.Device_StreamSync", self._device, 0)

    def _run_parts(self, parts: Sequence[Fitted]) -> dict[str, np.ndarray]:
        """Run the model on each part of a batch, and return the joined outputs."""
        with EXPLAINED_ERRORS:
            return fitting.join(self.info, parts, lambda part: self._open(part.function).compute(part.inputs))

    def _open(self, function: SizeFunction | None = None) -> Program:
        """Return the program of a size, by default that of the session. Its code is loaded when it is first used."""
        self._file.check()
        return self._programs.open(function or self._function)
