"""Attention over an FP8 KV cache on CPUs without AVX-512, in torch operators."""
