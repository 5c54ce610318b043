"""Cases of the rule about a checkpoint's tensors: see rule_cases."""

import cases
from rule_cases import Case

from toolkit.checkpoint.facts import TensorFacts

RULE = "weights-incomplete"
FIX = "download the checkpoint again, or use the config.json that was published with it"
EMBEDDING = 49152 * 768
LAYER = 768 * (12 + 2 * 4) * 64 + 768 * 12 * 64 + 3 * 768 * 1536
"""Weights of one layer: queries, keys, values and output; gate, up and down."""
LEAST = 4 * LAYER + EMBEDDING
"""Bytes of four layers and the embedding at 8 bits each."""
AWQ = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}


def holding(size, layers, name="model.layers.{}.mlp.down_proj.weight", **changes):
    """A checkpoint of so many bytes in tensors of these layers."""
    names = ["model.embed_tokens.weight", *(name.format(layer) for layer in layers)]
    sizes = [size, *(0 for _ in layers)]
    tensors = {
        name: TensorFacts(name, "F16", (1,), held, "model.safetensors") for name, held in zip(names, sizes, strict=True)
    }
    return cases.facts(config={**cases.LLAMA, **changes}, tensors=tensors)


def lacks(layers, checkpoint):
    message = f"config.json's number of layers is 4, and no tensor is of {layers}"
    return Case(RULE, ("checkpoint", message, FIX), cases.config(), checkpoint)


def takes(held, least, checkpoint):
    message = f"its tensors take {held:,} bytes, and the weights that config.json describes at least {least:,}"
    return Case(RULE, ("checkpoint", message, FIX), cases.config(), checkpoint)


def passes(checkpoint):
    return Case(RULE, None, cases.config(), checkpoint)


HALF = LEAST // 2
OUTER = "model.visual.layers.{}.weight", "mtp.layers.{}.weight", "audio_tower.layers.{}.weight", "h.{}.weight"
CASES = [
    lacks("3", holding(LEAST, range(3))),
    lacks("0, 1, 3", holding(LEAST, (2,))),
    lacks("0, 1, 2 and 1 more", holding(LEAST, (9,))),
    lacks("0, 2", holding(LEAST, (1, 3), "language_model.layers.{}.mlp.weight")),
    lacks("3", holding(LEAST, (0, 1, 2, "0000000003"))),
    lacks("3", holding(LEAST, (0, 1, 2, "9" * 5000, "\u0663x"))),
    passes(holding(LEAST, (0, 1, 2, "000000003"))),
    passes(holding(LEAST, range(4))),
    passes(holding(HALF, range(5))),
    takes(HALF - 1, LEAST, holding(HALF - 1, range(4))),
    takes(0, LEAST, holding(0, range(4))),
    passes(holding(LEAST // 4, range(4), **AWQ)),
    takes(LEAST // 4 - 1, LEAST // 2, holding(LEAST // 4 - 1, range(4), **AWQ)),
    passes(holding((LEAST + EMBEDDING) // 2, range(4), tie_word_embeddings=False)),
    takes(
        (LEAST + EMBEDDING) // 2 - 1,
        LEAST + EMBEDDING,
        holding((LEAST + EMBEDDING) // 2 - 1, range(4), tie_word_embeddings=False),
    ),
    *(passes(holding(LEAST, (7,), name)) for name in OUTER),
    passes(holding(0, (7,), architectures=["NovelForCausalLM"])),
    passes(holding(0, (7,), hidden_size=0)),
    passes(cases.facts()),
]
SEVERITIES = {}
