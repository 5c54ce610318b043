"""A GGUF file of a Llama model into a folder that transformers and vLLM load.

Weights are stored in float16, the dtype that they are served in: float32 would double the file and be rounded to the
same values while loading, bfloat16 has 8 times the error. A model with a weight beyond float16's range is stored in
float32. What the rounding cost is in conversion.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from toolkit.checkpoint.gguf.config import model_config, token_ids
from toolkit.checkpoint.gguf.cursor import GgufError
from toolkit.checkpoint.gguf.reader import GgufFile, open_gguf
from toolkit.checkpoint.gguf.tokenizer import write_tokenizer
from toolkit.checkpoint.gguf.weights import Float16OverflowError, Rounding, match_tensors, write_weights
from toolkit.checkpoint.progress import Progress, step
from toolkit.errors import CheckFailedError

CONVERTER_VERSION = 1
"""Part of a converted checkpoint's key; raised with every change of what is written."""

WEIGHTS = "model.safetensors"
_TORCH_NAMES = {"F16": "float16", "F32": "float32"}


def convert(gguf_path: Path, folder: Path, source: Mapping[str, str | int], progress: Progress) -> None:
    """Fill the empty `folder`; `source` is written down beside the figures. CheckFailedError says what is wrong."""
    file = open_gguf(gguf_path)
    try:
        try:
            rounding, dtype = _write_model(file, folder, "F16", progress), "F16"
        except Float16OverflowError:
            (folder / WEIGHTS).unlink()
            rounding, dtype = _write_model(file, folder, "F32", progress), "F32"
        with step(progress, "converting the tokenizer", None):
            write_tokenizer(gguf_path, file.metadata, folder)
    except GgufError as fault:
        raise CheckFailedError(
            f"{gguf_path.name}: {fault}", where=str(gguf_path), fix="use a checkpoint in safetensors of this model"
        ) from None
    _dump(folder / "generation_config.json", token_ids(file.metadata))
    _dump(folder / "conversion.json", _record(file, source, dtype, rounding))


def _write_model(file: GgufFile, folder: Path, dtype: str, progress: Progress) -> Rounding:
    tied = "output.weight" not in file.tensors
    config = model_config(file.metadata, tied=tied, dtype=_TORCH_NAMES[dtype])
    model = match_tensors(file, config)
    with step(progress, f"converting {file.path.name}", model.num_bytes):
        rounding = write_weights(folder / WEIGHTS, model, dtype, progress)
    _dump(folder / "config.json", config)
    return rounding


def _record(file: GgufFile, source: Mapping[str, str | int], dtype: str, rounding: Rounding) -> dict[str, Any]:
    return {
        "converter_version": CONVERTER_VERSION,
        "source": dict(source),
        "tensors": len(file.tensors),
        "stored_as": dtype,
        "rounding": asdict(rounding),
    }


def _dump(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
