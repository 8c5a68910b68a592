"""The driver of the expansion rules: it applies them to a model until no rule applies, and folds constants."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import onnx
import onnx.inliner

from tvmbuild.compiler.importing.expand.attention import attention
from tvmbuild.compiler.importing.expand.caches import tensor_scatter
from tvmbuild.compiler.importing.expand.constants import can_fold, drop_unused, fold_nodes
from tvmbuild.compiler.importing.expand.control_flow import unroll_if, unroll_loop, unroll_scan
from tvmbuild.compiler.importing.expand.deformable import deformable_convolution
from tvmbuild.compiler.importing.expand.einsum import einsum
from tvmbuild.compiler.importing.expand.elements import assign_where, columns_to_image, compress, determinant
from tvmbuild.compiler.importing.expand.fourier import fourier_transform, short_time_fourier_transform
from tvmbuild.compiler.importing.expand.functions import by_function, normalization, space_to_depth
from tvmbuild.compiler.importing.expand.microsoft.norms import simplified_layer_normalization
from tvmbuild.compiler.importing.expand.microsoft.table import RULES as MICROSOFT
from tvmbuild.compiler.importing.expand.ml.table import RULES as MACHINE_LEARNING
from tvmbuild.compiler.importing.expand.norms import lp_normalization
from tvmbuild.compiler.importing.expand.pooling import has_places, max_pool_with_places
from tvmbuild.compiler.importing.expand.quantized.table import MICROSOFT as MICROSOFT_QUANTIZED
from tvmbuild.compiler.importing.expand.quantized.table import ONNX as QUANTIZED
from tvmbuild.compiler.importing.expand.recurrent import unroll_gru, unroll_lstm, unroll_rnn
from tvmbuild.compiler.importing.expand.resize import upsample
from tvmbuild.compiler.importing.expand.scope import Nodes, Rule, Scope, walk_nodes
from tvmbuild.compiler.importing.expand.sequences import reverse_sequence
from tvmbuild.compiler.importing.expand.tensor_sequences import RULES as SEQUENCES
from tvmbuild.compiler.importing.refusals import ONNX, NodeError, combine
from tvmbuild.errors import TvmbuildError

MAX_ROUNDS = 32
"""The largest number of rounds in which rules expand the results of rules: loops in loops, functions in functions."""
_FUNCTIONS = (
    "BlackmanWindow",
    "CausalConvWithState",
    "Celu",
    "CenterCropPad",
    "FlexAttention",
    "HammingWindow",
    "HannWindow",
    "LinearAttention",
    "NegativeLogLikelihoodLoss",
    "RMSNormalization",
    "RotaryEmbedding",
    "SoftmaxCrossEntropyLoss",
    "SwiGLU",
    "Swish",
)
_OWN: Mapping[str, Rule] = {
    **QUANTIZED,
    **SEQUENCES,
    **dict.fromkeys(_FUNCTIONS, by_function),
    "Attention": attention,
    "Col2Im": columns_to_image,
    "Compress": compress,
    "DFT": fourier_transform,
    "DeformConv": deformable_convolution,
    "Det": determinant,
    "Einsum": einsum,
    "GRU": unroll_gru,
    "If": unroll_if,
    "LSTM": unroll_lstm,
    "LayerNormalization": normalization,
    "Loop": unroll_loop,
    "LpNormalization": lp_normalization,
    "MaxPool": max_pool_with_places,
    "RNN": unroll_rnn,
    "ReverseSequence": reverse_sequence,
    "STFT": short_time_fourier_transform,
    "Scan": unroll_scan,
    "ScatterND": assign_where,
    "SimplifiedLayerNormalization": simplified_layer_normalization,
    "SpaceToDepth": space_to_depth,
    "TensorScatter": tensor_scatter,
    "Upsample": upsample,
}
RULES: Mapping[str, Mapping[str, Rule]] = {
    **dict.fromkeys(ONNX, _OWN),
    "ai.onnx.ml": MACHINE_LEARNING,
    "com.microsoft": {**MICROSOFT, **MICROSOFT_QUANTIZED},
}
"""The expansion rules by domain and operator."""
_OPTIONAL_OUTPUTS = frozenset({"BatchNormalization", "Dropout", "LayerNormalization", "MaxPool"})


def expand_operators(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with all operators of ``RULES`` expanded, as by `expand_what_can_be`.

    Raises TvmbuildError if operators cannot be expanded; the error says which, and why.
    """
    expanded, refused = expand_what_can_be(model)
    if refused:
        raise combine([*refused.values()])
    return expanded


def expand_what_can_be(
    model: onnx.ModelProto, first: Mapping[str, Rule] = MappingProxyType({})
) -> tuple[onnx.ModelProto, dict[str, NodeError]]:
    """Return the model with its operators and functions expanded, and the errors of nodes that cannot be expanded.

    All operators with a rule in ``RULES`` are expanded, and the model's own functions; a model with neither is returned
    itself. The rules of ``first`` (operator → rule) are tried before ``RULES``; a node that they return unchanged is
    left to the importer. The errors say why the remaining nodes cannot be built, by the nodes' first outputs.
    """
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    refused: dict[str, NodeError] = {}
    if not _has_work(model):
        return model, refused
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.value_info[:]  # an exporter's names of dimensions would hide their numbers
    drop_unused(result.graph)  # a classifier's unread labels may be strings
    rounds, left = 0, _count_with_rules(result.graph)
    while rounds < MAX_ROUNDS:
        expanded, folded = _expand_once(result, first, refused)
        if not expanded and not folded:
            drop_unused(result.graph)
            return result, refused
        before, left = left, _count_with_rules(result.graph)
        rounds += expanded and left >= before  # operators that wait for each other's shapes become fewer each round
    raise TvmbuildError(f"operators are nested more than {MAX_ROUNDS} deep", "rewrite these parts of the model")


def _expand_once(model: onnx.ModelProto, first: Mapping[str, Rule], refused: dict[str, NodeError]) -> tuple[bool, bool]:
    """Apply the rules to each node once, in place; return whether a node was expanded, and whether a node was folded.

    A node that a rule refuses stays, and its error is added to ``refused``.
    """
    for node, count in _find_unused_outputs(model.graph):
        del node.output[count:]
    scope, nodes, expanded = Scope(model), Nodes(), False
    for node in model.graph.node:
        made = None
        if node.output[0] not in refused:
            rules = filter(None, (first.get(node.op_type), find_rule(node)))
            try:
                made = next((made for rule in rules if (made := rule(node, scope)) is not None), None)
            except NodeError as error:
                refused[node.output[0]] = error
        expanded = expanded or (made is not None and (not made or made[0] is not node))
        nodes += [node] if made is None else made
    left = fold_nodes(nodes, scope)
    folded = len(left) < len(nodes)
    del model.graph.node[:]
    model.graph.node.extend(left)
    return expanded, folded


def _find_unused_outputs(graph: onnx.GraphProto) -> list[tuple[onnx.NodeProto, int]]:
    """Return the nodes whose last outputs nothing reads (masks of Dropout), and the number of outputs to keep."""
    used = {name for node in walk_nodes(graph) for name in node.input} | {value.name for value in graph.output}
    several = [node for node in graph.node if node.op_type in _OPTIONAL_OUTPUTS and len(node.output) > 1]
    counts = [max((i for i, name in enumerate(node.output) if name in used), default=0) + 1 for node in several]
    return [(node, count) for node, count in zip(several, counts, strict=True) if count < len(node.output)]


def _count_with_rules(graph: onnx.GraphProto) -> int:
    return sum(find_rule(node) is not None for node in graph.node)


def _has_work(model: onnx.ModelProto) -> bool:
    known = {tensor.name for tensor in model.graph.initializer}
    found = any(find_rule(node) or can_fold(node, known) for node in model.graph.node)
    return found or bool(_find_unused_outputs(model.graph))


def find_rule(node: onnx.NodeProto) -> Rule | None:
    """Return the rule for the node's operator, or None if it has no rule.

    Resize of opset 10 has no region of interest and is treated as Upsample. A MaxPool without places needs no rule.
    """
    if node.op_type == "MaxPool" and not has_places(node):
        return None
    name = "Upsample" if node.op_type == "Resize" and len(node.input) == 2 else node.op_type
    return RULES.get(node.domain, {}).get(name)
