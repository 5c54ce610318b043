"""Compiles Triton kernels for sm_70 without a GPU, by calling upstream's own launchers with tensors on the CPU."""
