"""The table of rules by operator: what an operator does with values whose length depends on data."""

from __future__ import annotations

from collections.abc import Mapping

from tvmbuild.compiler.importing.bounds.cuts import number_range, pad, slice_axes, split
from tvmbuild.compiler.importing.bounds.elementwise import elementwise
from tvmbuild.compiler.importing.bounds.indexing import (
    gather,
    gather_elements,
    gather_nd,
    scatter_elements,
    scatter_nd,
)
from tvmbuild.compiler.importing.bounds.joins import branch, concat
from tvmbuild.compiler.importing.bounds.moves import (
    constant_of_shape,
    dropout,
    expand,
    identity,
    shape_numbers,
    size_number,
    squeeze,
    tile,
    transpose,
    unsqueeze,
)
from tvmbuild.compiler.importing.bounds.producers import compress, non_max_suppression, non_zero
from tvmbuild.compiler.importing.bounds.reductions import (
    arg_extreme,
    cumulate,
    general_product,
    matrix_product,
    reduce,
    softmax,
    top_k,
)
from tvmbuild.compiler.importing.bounds.reshape import flatten, reshape
from tvmbuild.compiler.importing.bounds.rows import by_rows, grid_sample, one_hot, roi_align
from tvmbuild.compiler.importing.bounds.tracker import Rule
from tvmbuild.compiler.importing.bounds.unique import unique

_ELEMENTWISE = (
    *("Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd", "BitwiseNot"),
    *("BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "Elu", "Equal", "Erf", "Exp"),
    *("Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Less"),
    *("LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow"),
    *("Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign"),
    *("Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor"),
)
_BY_ROWS = (
    *("AveragePool", "BatchNormalization", "CastLike", "Conv", "ConvInteger", "ConvTranspose", "DepthToSpace"),
    *("DequantizeLinear", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "Hardmax", "InstanceNormalization"),
    *("LRN", "LayerNormalization", "LpPool", "MatMulInteger", "MaxPool", "MeanVarianceNormalization"),
    *("QuantizeLinear", "Resize", "SpaceToDepth"),
)
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
MEASURED: Mapping[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Slice": (1, 2),
    "Tile": (1,),
    "TopK": (1,),
}
"""Operator → its inputs whose values are lengths or places."""
RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, elementwise),
    **dict.fromkeys(_BY_ROWS, by_rows),
    **{f"Reduce{each}": reduce for each in _REDUCTIONS},
    **dict.fromkeys(("ArgMax", "ArgMin"), arg_extreme),
    **dict.fromkeys(("LogSoftmax", "Softmax"), softmax),
    "Compress": compress,
    "Concat": concat,
    "ConstantOfShape": constant_of_shape,
    "CumSum": cumulate,
    "Dropout": dropout,
    "Expand": expand,
    "Flatten": flatten,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Gemm": general_product,
    "GridSample": grid_sample,
    "Identity": identity,
    "If": branch,
    "MatMul": matrix_product,
    "NonMaxSuppression": non_max_suppression,
    "NonZero": non_zero,
    "OneHot": one_hot,
    "Pad": pad,
    "Range": number_range,
    "Reshape": reshape,
    "RoiAlign": roi_align,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "Shape": shape_numbers,
    "Size": size_number,
    "Slice": slice_axes,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "TopK": top_k,
    "Transpose": transpose,
    "Unique": unique,
    "Unsqueeze": unsqueeze,
}
