"""Rules about a checkpoint's tensors: whether they are the model that config.json describes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.geometry.quantization import Scheme
from toolkit.planning.geometry.shards import projections
from toolkit.planning.plan import Severity
from toolkit.planning.rules.rule import Context, Problem, Rule

FEWEST_BITS = {True: 8, False: 4}
"""Bits in which a weight is stored at the least, by whether the checkpoint is unquantised."""
SHOWN = 3
MOST_DIGITS = 10
BESIDE = ("visual", "vision", "audio", "mtp")
"""Parts of names of what has layers of its own beside the language model's."""


def weights_incomplete(context: Context) -> Iterator[Problem]:
    """What is not there vLLM misses only where nothing is quantised; otherwise it serves noise."""
    facts, geometry = context.checkpoint, context.geometry
    if not facts.tensors or geometry is None or geometry.unknown:
        return  # tensors that are not here, and shapes that are not sure, are told elsewhere
    fix = "download the checkpoint again, or use the config.json that was published with it"
    numbers = set(layer_numbers(facts.tensors))
    absent = [str(number) for number in range(len(geometry.layers)) if number not in numbers]
    if numbers and absent:
        more = f" and {len(absent) - SHOWN} more" if len(absent) > SHOWN else ""
        named = f"{', '.join(absent[:SHOWN])}{more}"
        yield Problem(
            "checkpoint", f"config.json's number of layers is {len(geometry.layers)}, and no tensor is of {named}", fix
        )
    held, least = sum(tensor.num_bytes for tensor in facts.tensors.values()), least_bytes(geometry)
    if 2 * held < least:
        yield Problem(
            "checkpoint",
            f"its tensors take {held:,} bytes, and the weights that config.json describes at least {least:,}",
            fix,
        )


def layer_numbers(names: Iterable[str]) -> Iterator[int]:
    """The numbers of the language model's layers that tensors belong to."""
    for head, number in {_layer_of(name) for name in names}:
        if number.isdecimal() and len(number) < MOST_DIGITS and not any(part in head for part in BESIDE):
            yield int(number)


def _layer_of(name: str) -> tuple[str, str]:
    """What stands before and behind `layers.` in a name, up to the next dot; a checkpoint has 300,000 names."""
    head, _, rest = name.partition("layers.")
    return head, rest.partition(".")[0]


def least_bytes(geometry: ModelGeometry) -> int:
    """Bytes of the linear layers and of the embedding in the fewest bits that any format has for them."""
    bits = FEWEST_BITS[geometry.quantization.scheme is Scheme.none]
    tied = ("lm_head",) if geometry.tie_word_embeddings else ()
    weights = sum(part.weights for part in projections(geometry, 1) if part.name not in tied)
    return (weights + geometry.vocab_size * geometry.hidden_size) * bits // 8


RULES = (
    Rule(
        "weights-incomplete",
        "The tensors are those of config.json's model",
        Severity.refuse,
        weights_incomplete,
        "vLLM 0.32 model_executor/model_loader/default_loader.py: track_weights_loading",
    ),
)
