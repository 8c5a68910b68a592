"""Kernels written by hand in TensorIR: functions of loops and vectors; they know nothing of Relax."""
