"""Checks of each operator against its oracle, on any device. tests/native runs them on the CPU, tests/gpu on a GPU."""
