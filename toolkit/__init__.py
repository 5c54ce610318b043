"""Build, check and deploy LLM serving on NVIDIA V100 (SM70) from one recipe."""

__version__ = "0.1.0"
