"""Attention as one kernel for GPUs."""
