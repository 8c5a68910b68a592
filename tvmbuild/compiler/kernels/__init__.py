"""Kernels written by hand in TensorIR: functions of loops and vectors, independent of Relax."""
