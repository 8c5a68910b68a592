"""The baseline `openvino`: an ONNX file in OpenVINO on the CPU, with bound inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import openvino


class OpenVinoRunner:
    """A model loaded in OpenVINO. A call copies neither the inputs nor the outputs."""

    def __init__(self, model: Path, inputs: Mapping[str, np.ndarray], threads: int) -> None:
        options = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            # On CPUs with AMX the default is bfloat16: it is quicker, but its numbers differ from the other runtimes'.
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = openvino.Core().compile_model(str(model), "CPU", options)
        self._threads = int(compiled.get_property("INFERENCE_NUM_THREADS"))
        self._outputs = compiled.outputs
        self._request = compiled.create_infer_request()
        self._inputs = dict(inputs)
        for port in compiled.inputs:
            name = next(name for name in port.get_names() if name in self._inputs)
            self._request.set_tensor(port, openvino.Tensor(self._inputs[name], shared_memory=True))

    def call(self) -> object:
        """Run the model once on the bound inputs."""
        return self._request.infer(share_outputs=True)

    def outputs(self) -> Mapping[str, np.ndarray]:
        """Run the model once on the bound inputs and return copies of the outputs by name.

        An output whose tensor has several names appears under each of them.
        """
        self.call()
        values = ((port.get_names(), self._request.get_tensor(port).data.copy()) for port in self._outputs)
        return {name: value for names, value in values for name in names}

    def threads(self) -> int:
        """Return the number of threads that OpenVINO reports."""
        return self._threads
