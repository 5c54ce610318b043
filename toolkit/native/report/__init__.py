"""The static report: what the kernels of a library need and how long a V100 will take, from the machine code alone."""
