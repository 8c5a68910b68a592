"""The expansion rules by operator of com.microsoft; the operators of quantised models have another table."""

from __future__ import annotations

from collections.abc import Mapping

from tvmbuild.compiler.importing.expand.microsoft import activations, norms, products
from tvmbuild.compiler.importing.expand.microsoft.attention import attention, multi_head_attention
from tvmbuild.compiler.importing.expand.microsoft.grouped import group_query_attention
from tvmbuild.compiler.importing.expand.microsoft.rotary import rotary_embedding
from tvmbuild.compiler.importing.expand.scope import Rule

RULES: Mapping[str, Rule] = {
    "Attention": attention,
    "BiasGelu": activations.exact_gelu,
    "EmbedLayerNormalization": norms.embed_layer_normalization,
    "FastGelu": activations.fast_gelu,
    "FusedConv": products.fused_conv,
    "FusedGemm": products.fused_gemm,
    "FusedMatMul": products.fused_matmul,
    "Gelu": activations.exact_gelu,
    "GroupQueryAttention": group_query_attention,
    "MultiHeadAttention": multi_head_attention,
    "QuickGelu": activations.quick_gelu,
    "RotaryEmbedding": rotary_embedding,
    "SkipLayerNormalization": norms.skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": norms.skip_simplified_layer_normalization,
}
