"""The expansion rules by operator of quantised models."""

from __future__ import annotations

from collections.abc import Mapping

from tvmbuild.compiler.importing.expand.quantized import elementwise, pools
from tvmbuild.compiler.importing.expand.quantized.dynamic import dynamic_matmul, matmul_to_float
from tvmbuild.compiler.importing.expand.quantized.products import gemm, linear_conv, linear_matmul
from tvmbuild.compiler.importing.expand.quantized.refusals import refuse_blocks, refuse_small_types, take_as_onnx
from tvmbuild.compiler.importing.expand.recurrent import unroll_dynamic_lstm
from tvmbuild.compiler.importing.expand.scope import Rule

ONNX: Mapping[str, Rule] = {
    "DequantizeLinear": refuse_small_types,
    "QLinearConv": linear_conv,
    "QLinearMatMul": linear_matmul,
    "QuantizeLinear": refuse_small_types,
}
MICROSOFT: Mapping[str, Rule] = {
    "DequantizeLinear": take_as_onnx,
    "DynamicQuantizeLSTM": unroll_dynamic_lstm,
    "DynamicQuantizeMatMul": dynamic_matmul,
    "GatherBlockQuantized": refuse_blocks,
    "MatMulIntegerToFloat": matmul_to_float,
    "MatMulNBits": refuse_blocks,
    "QGemm": gemm,
    "QLinearAdd": elementwise.by_floats("Add", 2),
    "QLinearAveragePool": pools.average,
    "QLinearConcat": elementwise.concat,
    "QLinearConv": linear_conv,
    "QLinearGlobalAveragePool": pools.global_average,
    "QLinearLeakyRelu": elementwise.by_floats("LeakyRelu", 1),
    "QLinearMul": elementwise.by_floats("Mul", 2),
    "QLinearReduceMean": elementwise.reduce_mean,
    "QLinearSigmoid": elementwise.by_floats("Sigmoid", 1),
    "QLinearSoftmax": elementwise.softmax,
    "QLinearWhere": elementwise.where,
    "QuantizeLinear": take_as_onnx,
}
"""The rules for com.microsoft's operators that onnxruntime.quantization (format QOperator) and ONNX Runtime write."""
