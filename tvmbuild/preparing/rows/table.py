"""The rule of each operator: the place of the batch in its outputs, or the reason why rows influence each other."""

from __future__ import annotations

from tvmbuild.preparing.rows import moves, products, values
from tvmbuild.preparing.rows.places import Rule

_TABLE: tuple[tuple[Rule, str], ...] = (
    (
        values.elementwise,
        (
            "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor "
            "Cast Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid "
            "HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or "
            "PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum "
            "Swish Tan Tanh ThresholdedRelu Where Xor"
        ),
    ),
    (
        values.reduce_axes,
        (
            "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
            "ReduceSumSquare"
        ),
    ),
    (values.arg, "ArgMax ArgMin"),
    (values.along_axis(-1, flat_before=13), "Hardmax LogSoftmax Softmax"),
    (values.along_axis(-1), "LpNormalization TopK"),
    (values.after_axis, "LayerNormalization RMSNormalization"),
    (values.mean_variance, "MeanVarianceNormalization"),
    (values.cum_sum, "CumSum"),
    (values.dropout, "Dropout"),
    (values.like_first, "CastLike"),
    (values.one_hot, "OneHot"),
    (values.quantise, "DequantizeLinear QuantizeLinear"),
    (
        products.samples(),
        (
            "AveragePool BatchNormalization Conv ConvInteger ConvTranspose DepthToSpace GlobalAveragePool "
            "GlobalLpPool GlobalMaxPool GroupNormalization InstanceNormalization LRN LpPool MaxPool QLinearConv "
            "SpaceToDepth"
        ),
    ),
    (products.samples(2), "GridSample"),
    (products.mat_mul(), "MatMul"),
    (products.mat_mul(of_rows=[2], of_columns=[3]), "MatMulInteger"),
    (products.mat_mul(0, 3, of_rows=[1, 2, 6, 7], of_columns=[4, 5, 6, 7]), "QLinearMatMul"),
    (products.gemm, "Gemm"),
    (products.einsum, "Einsum"),
    (products.recurrent, "GRU LSTM RNN"),
    (moves.reshape, "Flatten Reshape Squeeze Unsqueeze"),
    (moves.transpose, "Transpose"),
    (moves.same_length, "Expand Tile"),
    (moves.resize, "Resize Upsample"),
    (moves.concat, "Concat"),
    (moves.split_axes, "Split"),
    (moves.slice_axes, "Slice"),
    (moves.pad, "Pad"),
    (moves.trilu, "Trilu"),
    (moves.gather, "Gather"),
    (moves.gather_elements, "GatherElements ScatterElements"),
    (moves.gather_nd, "GatherND"),
    (moves.scatter_nd, "ScatterND"),
)
RULES: dict[str, Rule] = {name: rule for rule, names in _TABLE for name in names.split()}
"""Operator of ONNX → its rule. Rows of other operators are taken to influence each other."""
