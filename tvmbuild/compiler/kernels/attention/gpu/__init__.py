"""The attention kernel for GPUs."""
