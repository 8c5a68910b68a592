"""The baseline `onnxruntime`: an ONNX file in ONNX Runtime, with bound inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime


class OnnxRuntimeRunner:
    """A model loaded in ONNX Runtime. As in TvmRunner, a call does not copy the inputs."""

    def __init__(self, model: Path, inputs: Mapping[str, np.ndarray], threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._threads = threads
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._names = [output.name for output in self._session.get_outputs()]
        self._binding = self._session.io_binding()
        self._values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in inputs.items()}
        for name in (value.name for value in self._session.get_inputs()):
            self._binding.bind_ortvalue_input(name, self._values[name])
        for name in self._names:
            self._binding.bind_output(name)

    def call(self) -> object:
        """Run the model once on the bound inputs."""
        return self._session.run_with_iobinding(self._binding)

    def outputs(self) -> Mapping[str, np.ndarray]:
        """Run the model once on the bound inputs and return copies of the outputs by name."""
        self.call()
        return dict(zip(self._names, self._binding.copy_outputs_to_cpu(), strict=True))

    def threads(self) -> int:
        """Return the number of threads that the session was given. ONNX Runtime does not report the number it uses."""
        return self._threads
