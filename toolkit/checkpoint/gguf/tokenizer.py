"""tokenizer.json, its settings and the chat template, from a GGUF file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolkit.checkpoint.gguf.cursor import GgufError

_ROLES = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def write_tokenizer(gguf_path: Path, metadata: Mapping[str, Any], folder: Path) -> None:
    """Write the tokenizer that transformers reads from the GGUF file, in files that need no GGUF any more.

    Raises GgufError where transformers builds none, or one that splits prompts otherwise than the file says.
    """
    # What AutoTokenizer calls as well; called here, the file's other metadata is not read once more (6 s).
    # The package loads these names lazily, where mypy cannot see them.
    from transformers.integrations.gguf import convert_gguf_tokenizer, get_gguf_tokenizer  # type: ignore[attr-defined]

    try:
        architecture, tokenizer, _ = get_gguf_tokenizer(str(gguf_path))
        backend, _ = convert_gguf_tokenizer(architecture, tokenizer)
    except (ValueError, KeyError, IndexError) as error:
        raise GgufError(f"transformers builds no tokenizer of it: {error}") from None
    vocabulary = len(metadata["tokenizer.ggml.tokens"])
    if backend.get_vocab_size() != vocabulary:
        raise GgufError(f"its tokenizer has {backend.get_vocab_size()} tokens, its vocabulary {vocabulary}")
    _check_bos(backend, metadata)
    backend.save(str(folder / "tokenizer.json"))
    _dump(folder / "tokenizer_config.json", _settings(metadata))
    template = metadata.get("tokenizer.chat_template")
    if template:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def _settings(metadata: Mapping[str, Any]) -> dict[str, Any]:
    tokens = metadata["tokenizer.ggml.tokens"]
    ids = {role: metadata.get(f"tokenizer.ggml.{name}_token_id") for role, name in _ROLES.items()}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{role: tokens[token] for role, token in ids.items() if token is not None},
        "clean_up_tokenization_spaces": False,
        "model_max_length": metadata["llama.context_length"],
    }


def _check_bos(backend: Any, metadata: Mapping[str, Any]) -> None:
    """Refuse a file whose wish for a first token is not what transformers builds: every prompt would be off by one."""
    wanted = metadata.get("tokenizer.ggml.add_bos_token", metadata.get("tokenizer.ggml.model") == "llama")
    bos = metadata.get("tokenizer.ggml.bos_token_id")
    added = bos is not None and backend.encode("a", add_special_tokens=True).ids[:1] == [bos]
    if bos is not None and wanted != added:
        raise GgufError(f"add_bos_token is {wanted}, but the tokenizer that transformers builds does the opposite")


def _dump(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
