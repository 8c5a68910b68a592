"""Text encoders as Hugging Face's transformers computes them, with random weights, as PyTorch modules."""

from __future__ import annotations

from typing import Any

import torch
from transformers import BertConfig, BertModel


def make_minilm() -> Any:
    """Return a BertModel of the sizes of all-MiniLM-L6, with PyTorch's fused attention."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    config = BertConfig(vocab_size=30522, max_position_embeddings=512, attn_implementation="sdpa", **sizes)
    return BertModel(config, add_pooling_layer=False)
