"""Attention as one function: online softmax, as in FlashAttention."""
