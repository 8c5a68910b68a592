"""The table of our converters by operator; TVM's converters convert all other operators."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import relax

from tvmbuild.compiler.importing.bounds.names import POSITIONS, SUPPRESSION, WRITTEN
from tvmbuild.compiler.importing.converters.call import Converter
from tvmbuild.compiler.importing.converters.clipping import (
    convert_clip,
    convert_hard_sigmoid,
    convert_hard_swish,
    convert_leaky_relu,
)
from tvmbuild.compiler.importing.converters.convolutions import convert_batch_normalization, convert_transposed
from tvmbuild.compiler.importing.converters.counted import (
    convert_positions,
    convert_suppression,
    convert_written,
)
from tvmbuild.compiler.importing.converters.coupling import convert_coupling
from tvmbuild.compiler.importing.converters.elementwise import (
    convert_bit_shift,
    convert_cosh,
    convert_dropout,
    convert_elu,
    convert_equal,
    convert_is_inf,
    convert_mean,
    convert_mod,
    convert_power,
    convert_selu,
    convert_sinh,
    convert_thresholded_relu,
    fold_pairwise,
)
from tvmbuild.compiler.importing.converters.grid_sample import convert_grid_sample
from tvmbuild.compiler.importing.converters.indexing import (
    convert_gather,
    convert_max_unpool,
    convert_one_hot,
    convert_slice,
    convert_split,
)
from tvmbuild.compiler.importing.converters.integers import convert_conv_integer, convert_matmul_integer
from tvmbuild.compiler.importing.converters.norms import (
    convert_group_normalization,
    convert_instance_normalization,
    convert_layer_normalization,
)
from tvmbuild.compiler.importing.converters.pooling import convert_pool
from tvmbuild.compiler.importing.converters.quantization import (
    convert_dequantize,
    convert_dynamic_quantize,
    convert_quantize,
)
from tvmbuild.compiler.importing.converters.recurrent import convert_recurrence
from tvmbuild.compiler.importing.converters.reductions import REDUCTIONS, convert_reduction
from tvmbuild.compiler.importing.converters.resize import convert_resize
from tvmbuild.compiler.importing.converters.roi_align import convert_roi_align
from tvmbuild.compiler.importing.converters.top_k import convert_top_k
from tvmbuild.compiler.importing.converters.trees import convert_tree_leaves
from tvmbuild.compiler.importing.expand.ml.svm import COUPLING
from tvmbuild.compiler.importing.expand.ml.trees import LEAVES
from tvmbuild.compiler.importing.kept import convert_cast

CONVERTERS: Mapping[str, Converter] = {
    **dict.fromkeys(REDUCTIONS, convert_reduction),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), convert_pool),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), convert_recurrence),
    "BatchNormalization": convert_batch_normalization,
    "BitShift": convert_bit_shift,
    "Cast": convert_cast,
    "Clip": convert_clip,
    "ConvInteger": convert_conv_integer,
    "ConvTranspose": convert_transposed,
    "Cosh": convert_cosh,
    "DequantizeLinear": convert_dequantize,
    "Dropout": convert_dropout,
    "DynamicQuantizeLinear": convert_dynamic_quantize,
    "Elu": convert_elu,
    "Equal": convert_equal,
    "Gather": convert_gather,
    "GridSample": convert_grid_sample,
    "GroupNormalization": convert_group_normalization,
    "HardSigmoid": convert_hard_sigmoid,
    "HardSwish": convert_hard_swish,
    "InstanceNormalization": convert_instance_normalization,
    "IsInf": convert_is_inf,
    "LayerNormalization": convert_layer_normalization,
    "LeakyRelu": convert_leaky_relu,
    "MatMulInteger": convert_matmul_integer,
    "Max": fold_pairwise(relax.op.maximum),
    "MaxUnpool": convert_max_unpool,
    "Mean": convert_mean,
    "Min": fold_pairwise(relax.op.minimum),
    "Mod": convert_mod,
    "OneHot": convert_one_hot,
    "Pow": convert_power,
    "QuantizeLinear": convert_quantize,
    "Resize": convert_resize,
    "RoiAlign": convert_roi_align,
    "Selu": convert_selu,
    "Sinh": convert_sinh,
    "Slice": convert_slice,
    "Split": convert_split,
    "Sum": fold_pairwise(relax.op.add),
    "ThresholdedRelu": convert_thresholded_relu,
    "TopK": convert_top_k,
    COUPLING: convert_coupling,
    LEAVES: convert_tree_leaves,
    POSITIONS: convert_positions,
    SUPPRESSION: convert_suppression,
    WRITTEN: convert_written,
}
