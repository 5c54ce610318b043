"""vLLM 0.32's parsers of tool calls and of reasoning, and which of them read what a family of models writes."""

from __future__ import annotations

from dataclasses import dataclass

TOOL_PARSERS = frozenset(
    (
        "apertus", "cohere_command3", "cohere_command4", "deepseek_v3", "deepseek_v31", "deepseek_v32",
        "deepseek_v4", "deepseek_v41", "dots", "ernie45", "functiongemma", "gemma4", "gigachat3", "glm45", "glm47",
        "granite", "granite-20b-fc", "granite4", "hermes", "hf", "hunyuan_a13b", "hy_v3", "hy_v4", "inkling",
        "internlm", "jamba", "k2_horizon", "kimi_k2", "kimi_k3", "lfm2", "ling3", "llama3_json", "llama4_json",
        "llama4_pythonic", "longcat", "mimo", "minicpm5", "minimax_m2", "minimax_m3", "mistral", "muse_glimmer",
        "olmo3", "openai", "phi4_mini_json", "plamo3", "poolside_v1", "pythonic", "qwen3_coder", "qwen3_json",
        "qwen3_xml", "seed_oss", "step3", "step3p5", "xlam",
    )
)  # fmt: skip
REASONING_PARSERS = frozenset(
    (
        "cohere_command3", "cohere_command4", "deepseek_r1", "deepseek_v3", "deepseek_v4", "deepseek_v41", "ernie45",
        "gemma4", "glm45", "glm47", "granite", "granite_thinking_parser", "hf", "holo2", "hunyuan_a13b", "hy_v3",
        "hy_v4", "inkling", "k2_horizon", "kimi_k2", "kimi_k3", "ling3", "mimo", "minicpmv", "minimax_m2",
        "minimax_m2_append_think", "minimax_m3", "mistral", "muse_glimmer", "nemotron_v3", "olmo3", "openai_gptoss",
        "plamo3", "poolside_v1", "qwen3", "seed_oss", "step3", "step3p5",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Spoken:
    """The parsers that read a family of models; empty where any may, as its models write in several forms."""

    tools: tuple[str, ...]
    reasoning: tuple[str, ...]


# `hf` reads whatever the checkpoint itself declares.
BY_MODEL_TYPE = {
    "qwen2": Spoken(("hermes", "qwen3_json", "hf"), ()),
    "qwen3": Spoken(("hermes", "qwen3_json", "qwen3_coder", "qwen3_xml", "hf"), ("qwen3", "deepseek_r1", "hf")),
    "qwen3_next": Spoken(("hermes", "qwen3_json", "qwen3_coder", "qwen3_xml", "hf"), ("qwen3", "deepseek_r1", "hf")),
    "qwen3_5": Spoken(("qwen3_coder", "qwen3_xml", "hf"), ("qwen3", "hf")),
    "qwen4_exp": Spoken(("qwen3_coder", "qwen3_xml", "hf"), ("qwen3", "hf")),
    "minimax_m2": Spoken(("minimax_m2", "hf"), ("minimax_m2", "minimax_m2_append_think", "hf")),
    "gpt_oss": Spoken(("openai", "hf"), ("openai_gptoss", "hf")),
    "glm4": Spoken(("glm45", "glm47", "hf"), ("glm45", "glm47", "hf")),
}
"""By config.json's `model_type`, without `_text` and `_moe` at its end."""


def spoken_by(model_type: str) -> Spoken | None:
    """The parsers for a model type; None for a family that is not listed."""
    return BY_MODEL_TYPE.get(model_type.removesuffix("_text").removesuffix("_moe"))
