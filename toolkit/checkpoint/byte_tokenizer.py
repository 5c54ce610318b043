"""A byte-level tokenizer of any size with a chat template, for models that are drawn at random."""

from __future__ import annotations

from itertools import count, islice, product
from typing import Any

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Token ids 0, 1, 2."""
SMALLEST = len(SPECIAL) + 256
"""Every byte needs a token."""

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tokenizer_json(size: int) -> dict[str, Any]:
    """tokenizer.json with `size` tokens (at least SMALLEST).

    Text becomes one token a byte; the tokens above are pairs and longer runs of letters, which only a model writes, so
    that every id that it samples is visible text.
    """
    letters = byte_letters()
    runs = ("".join(run) for length in count(2) for run in product("etaoinshrdlu", repeat=length))
    tokens = [*SPECIAL, *letters, *islice(runs, size - SMALLEST)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": index, "content": token, **flags} for index, token in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": [],
        },
    }


def tokenizer_settings(max_length: int) -> dict[str, Any]:
    """tokenizer_config.json."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[1],
        "eos_token": SPECIAL[2],
        "pad_token": SPECIAL[0],
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
    }


def byte_letters() -> list[str]:
    """The letter that byte-level tokenizers write for each byte 0..255.

    Printable Latin-1 bytes stand for themselves; the 68 others for the letters from U+0100 on, in their order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = count(0x100)
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]
