"""Measured numbers that no formula gives, each with where it was published."""

from __future__ import annotations

DRAFT_BYTES = {"incoai/Qwen3.8-27B-DFlash2": 3_850_000_000}
"""Weights of a draft model by its repository: the size of model.safetensors, to three digits (pull request 666)."""

CPU_PROCESSES_BYTES = 3_030_000_000
"""Resident bytes of vLLM 0.32's three CPU processes with a model of no size: 0.67 + 0.63 + 1.72 GB."""

ACTIVATIONS_MARGIN = 1.0
"""Calibrated on Flash-Next with steps of 8192 tokens: 27.009 GiB at the peak, 25.414 after the start; and 547 blocks
within 0.96 of a 32 GB card with three drafts (pull request 702)."""
