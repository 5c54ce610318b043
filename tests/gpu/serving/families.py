"""Model families that engine=v100 serves: real config shapes, scaled down, but never in head sizes."""

TOKENS = {"vocab_size": 4096, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
ATTENTION = {"hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 131072}
GDN = {
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
EXPERTS = {"num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 256, "norm_topk_prob": True}
HYBRID = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
QWEN35_TEXT = {
    **TOKENS,
    **ATTENTION,
    **GDN,
    "head_dim": 256,
    "intermediate_size": 2048,
    "num_hidden_layers": 4,
    "layer_types": HYBRID,
}

FAMILIES = {
    "llama": ("llama", {**TOKENS, **ATTENTION, "head_dim": 128, "intermediate_size": 2048, "num_hidden_layers": 4}),
    "qwen2": ("qwen2", {**TOKENS, **ATTENTION, "intermediate_size": 2048, "num_hidden_layers": 4}),
    "qwen3": ("qwen3", {**TOKENS, **ATTENTION, "head_dim": 128, "intermediate_size": 2048, "num_hidden_layers": 4}),
    "qwen3_moe": (
        "qwen3_moe",
        {**TOKENS, **ATTENTION, **EXPERTS, "head_dim": 128, "num_hidden_layers": 4, "intermediate_size": 2048},
    ),
    "qwen3_next": (
        "qwen3_next",
        {
            **TOKENS,
            **ATTENTION,
            **GDN,
            **EXPERTS,
            "head_dim": 256,
            "num_hidden_layers": 4,
            "intermediate_size": 2048,
            "shared_expert_intermediate_size": 256,
            "num_nextn_predict_layers": 1,
            "layer_types": HYBRID,
        },
    ),
    "qwen3_5_text": ("qwen3_5_text", QWEN35_TEXT),
    "qwen3_5": (
        "qwen3_5",
        {
            "text_config": {**QWEN35_TEXT, "mtp_num_hidden_layers": 1},
            "vision_config": {
                "depth": 2,
                "hidden_size": 256,
                "intermediate_size": 512,
                "num_heads": 4,
                "out_hidden_size": 1024,
                "num_position_embeddings": 256,
            },
            "image_token_id": 4001,
            "video_token_id": 4002,
            "vision_start_token_id": 4003,
            "vision_end_token_id": 4004,
        },
    ),
}

DRAFT_LAYERS = {
    "qwen3_next": ("model.layers.3.", 1024),
    "qwen3_5": ("model.language_model.layers.3.", 1024),
}
"""Families with a next-token head: the layer that it is a copy of, and the hidden size."""

DRAFTS = {"llama_draft": ("llama", 2)}
"""Draft models: the family that they draft for, and how many of its layers they have."""
