"""GGUF files made by hand: what is converted comes out exactly, what cannot be converted is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import tiny_gguf
from recorded_progress import Recorded

from toolkit.checkpoint.differences import declared_differences
from toolkit.checkpoint.gguf.convert import convert
from toolkit.checkpoint.gguf.reader import open_gguf
from toolkit.checkpoint.local import read_facts
from toolkit.checkpoint.progress import Silent
from toolkit.errors import CheckFailedError


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def converted(path: Path, folder: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    convert(path, folder, {"made": "by hand"}, Silent())
    return load_file(folder / "model.safetensors")


def refusal(path: Path, folder: Path) -> str:
    with pytest.raises(CheckFailedError) as raised:
        convert(path, folder, {}, Silent())
    assert raised.value.where == str(path)
    assert raised.value.fix
    return raised.value.what.removeprefix(f"{path.name}: ")


@pytest.mark.parametrize("tied", [True, False])
def test_every_weight_comes_out(tmp_path: Path, target: Path, tied: bool) -> None:
    original = tiny_gguf.weights(tied=tied)
    found = converted(tiny_gguf.write(tmp_path / "m.gguf", original), target)
    assert found.keys() == original.keys()
    for name, values in original.items():
        assert np.array_equal(found[name], values.astype(np.float16)), name
    assert json.loads((target / "config.json").read_text())["tie_word_embeddings"] is tied


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_1", "Q4_0", "Q5_0"])
def test_quantised(tmp_path: Path, target: Path, kind: str) -> None:
    import gguf

    original = tiny_gguf.weights()
    found = converted(tiny_gguf.write(tmp_path / "m.gguf", original, kind=kind), target)
    quant = gguf.GGMLQuantizationType[kind]
    for name, values in original.items():
        # Rows are quantised each for itself, so the order that llama.cpp stores them in does not change a value.
        expected = gguf.dequantize(gguf.quantize(values, quant), quant) if values.ndim == 2 else values
        assert np.array_equal(found[name], expected.astype(np.float16)), name


def test_files(tmp_path: Path, target: Path) -> None:
    progress = Recorded()
    path = tiny_gguf.write(tmp_path / "m.gguf", tiny_gguf.weights(), kind="Q8_0")
    convert(path, target, {"package": "p==1"}, progress)
    facts = read_facts(target, "m")
    vocab = len(tiny_gguf.vocabulary()[0])
    expected = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 128,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": vocab,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    assert facts.config == expected
    assert declared_differences(facts, expected) == ()
    assert {tensor.dtype for tensor in facts.tensors.values()} == {"F16"}
    assert json.loads((target / "generation_config.json").read_text()) == {"bos_token_id": 0, "eos_token_id": 1}
    assert json.loads((target / "tokenizer_config.json").read_text())["eos_token"] == "<|im_end|>"
    assert (target / "chat_template.jinja").read_text().startswith("{% for m in messages %}")
    record = json.loads((target / "conversion.json").read_text())
    assert record["source"] == {"package": "p==1"}
    assert record["tensors"] == len(facts.tensors)
    assert 0 < record["rounding"]["max_relative"] <= 2**-11
    weights = "converting m.gguf"
    assert progress.ended == [weights, "converting the tokenizer"]
    assert progress.steps[weights] == progress.totals[weights]


def test_same_bytes_again(tmp_path: Path, target: Path) -> None:
    path = tiny_gguf.write(tmp_path / "m.gguf", tiny_gguf.weights(), kind="Q8_0")
    convert(path, target, {}, Silent())
    again = tmp_path / "again"
    again.mkdir()
    convert(path, again, {}, Silent())
    assert {file.name: file.read_bytes() for file in target.iterdir()} == {
        file.name: file.read_bytes() for file in again.iterdir()
    }


def test_a_weight_beyond_float16_makes_it_float32(tmp_path: Path, target: Path) -> None:
    original = tiny_gguf.weights()
    original["model.layers.1.mlp.down_proj.weight"][3, 5] = 65520.0  # the smallest that rounds to infinity
    found = converted(tiny_gguf.write(tmp_path / "m.gguf", original), target)
    assert all(np.array_equal(found[name], values) for name, values in original.items())
    assert read_facts(target, "m").config["torch_dtype"] == "float32"
    record = json.loads((target / "conversion.json").read_text())
    assert record["stored_as"] == "F32"
    assert record["rounding"] == {"max_absolute": 0.0, "max_relative": 0.0}


def test_the_largest_float16_is_kept(tmp_path: Path, target: Path) -> None:
    original = tiny_gguf.weights()
    original["model.norm.weight"][0] = 65519.0
    assert converted(tiny_gguf.write(tmp_path / "m.gguf", original), target)["model.norm.weight"][0] == 65504.0


def test_rounding_is_measured(tmp_path: Path, target: Path) -> None:
    original = {name: values.astype(np.float16).astype(np.float32) for name, values in tiny_gguf.weights().items()}
    original["model.norm.weight"][:3] = [1 + 2**-11, 1.0, 2.0**-26]  # half a unit, none, half of the smallest
    converted(tiny_gguf.write(tmp_path / "m.gguf", original), target)
    rounding = json.loads((target / "conversion.json").read_text())["rounding"]
    assert rounding["max_absolute"] == 2**-11
    assert rounding["max_relative"] == pytest.approx(2**-11 / (1 + 2**-11), rel=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity(tmp_path: Path, target: Path, value: float) -> None:
    original = tiny_gguf.weights()
    original["model.layers.0.mlp.up_proj.weight"][95, 63] = value
    path = tiny_gguf.write(tmp_path / "m.gguf", original)
    assert refusal(path, target) == "model.layers.0.mlp.up_proj.weight holds NaN or infinity"


# ---- what does not fit config.json

NO_RWKV = (
    "transformers builds no tokenizer of it: Cannot build a tokenizer from a GGUF file stating tokenizer 'rwkv'. "
    "Supported: ['gemma4', 'gpt2', 'llama', 't5']."
)


def test_a_tensor_too_many(tmp_path: Path, target: Path) -> None:
    path = tiny_gguf.write(tmp_path / "m.gguf", tiny_gguf.weights() | {"rope_freqs.weight": np.ones(8, np.float32)})
    assert refusal(path, target) == "it holds tensors that config.json has no place for: rope_freqs.weight"
    assert list(target.iterdir()) == []


def test_a_layer_too_many(tmp_path: Path, target: Path) -> None:
    path = tiny_gguf.write(tmp_path / "m.gguf", tiny_gguf.weights(), **{"llama.block_count": 1})
    assert refusal(path, target) == (
        "it holds tensors that config.json has no place for: blk.1.attn_norm.weight, blk.1.attn_q.weight, "
        "blk.1.attn_k.weight, blk.1.attn_v.weight, blk.1.attn_output.weight and 4 more"
    )


def test_a_tensor_missing(tmp_path: Path, target: Path) -> None:
    original = tiny_gguf.weights()
    del original["model.layers.1.self_attn.v_proj.weight"]
    path = tiny_gguf.write(tmp_path / "m.gguf", original)
    assert refusal(path, target) == "it lacks tensors: model.layers.1.self_attn.v_proj.weight"


def test_another_shape(tmp_path: Path, target: Path) -> None:
    path = tiny_gguf.write(tmp_path / "m.gguf", tiny_gguf.weights(), **{"llama.feed_forward_length": 128})
    assert refusal(path, target) == "blk.0.ffn_gate.weight is [96, 64]; config.json needs [128, 64]"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"llama.expert_count": 8}, "it is a mixture of experts; only dense llama is converted"),
        ({"llama.rope.scaling.type": "yarn"},
         "its rotary positions are scaled (yarn); only unscaled ones are converted"),
        ({"llama.rope.dimension_count": 8}, "heads of 16 with values of 16 and 8 rotary are not converted"),
        ({"llama.attention.value_length": 8}, "heads of 16 with values of 8 and 16 rotary are not converted"),
        ({"llama.embedding_length": None}, "metadata llama.embedding_length is None, a positive number is needed"),
        ({"llama.block_count": 0}, "metadata llama.block_count is 0, a positive number is needed"),
        ({"llama.context_length": "x"}, "metadata llama.context_length is 'x', a positive number is needed"),
        ({"llama.attention.head_count_kv": 0},
         "metadata llama.attention.head_count_kv is 0, a positive number is needed"),
        ({"llama.attention.head_count_kv": 3}, "4 attention heads are not divisible by 3 key-value heads"),
        ({"llama.attention.layer_norm_rms_epsilon": None},
         "metadata llama.attention.layer_norm_rms_epsilon is None, a positive number is needed"),
        ({"tokenizer.ggml.tokens": None}, "metadata tokenizer.ggml.tokens is missing"),
        ({"tokenizer.ggml.bos_token_id": 5000},
         "metadata tokenizer.ggml.bos_token_id is 5000, no token of its vocabulary"),
        ({"tokenizer.ggml.add_bos_token": True},
         "add_bos_token is True, but the tokenizer that transformers builds does the opposite"),
        ({"tokenizer.ggml.model": "rwkv"}, NO_RWKV),
    ],
)  # fmt: skip
def test_metadata(tmp_path: Path, target: Path, changes: dict, reason: str) -> None:
    assert refusal(tiny_gguf.write(tmp_path / "m.gguf", tiny_gguf.weights(), **changes), target) == reason


def test_another_architecture(tmp_path: Path, target: Path) -> None:
    path = tiny_gguf.write(tmp_path / "m.gguf", tiny_gguf.weights(), arch="qwen2")
    assert refusal(path, target) == "its architecture is 'qwen2'; only llama is converted"


# ---- broken files

HEAD = b"GGUF" + struct.pack("<I", 3)
NEEDS_2_64 = "truncated: 18446744073709551665 bytes are needed, the file has 49"


def pair(name: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value


def counts(tensors: int, pairs: int) -> bytes:
    return struct.pack("<QQ", tensors, pairs)


def tensor(name: bytes, dims: list[int], kind: int, offset: int) -> bytes:
    shape = struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
    return struct.pack("<Q", len(name)) + name + shape + struct.pack("<IQ", kind, offset)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"GG", "no GGUF file: it does not begin with GGUF"),
        (b"PK\x03\x04 a zip file", "no GGUF file: it does not begin with GGUF"),
        (b"GGUF" + struct.pack("<I", 1) + counts(0, 0), "GGUF version 1 is not known (2 and 3 are)"),
        (b"GGUF" + struct.pack(">I", 3) + counts(0, 0), "GGUF version 50331648 is not known (2 and 3 are)"),
        (HEAD, "truncated: 24 bytes are needed, the file has 8"),
        (HEAD + counts(0, 2**60), "truncated: 32 bytes are needed, the file has 24"),
        (HEAD + counts(2**60, 0), "truncated: 32 bytes are needed, the file has 24"),
        (HEAD + counts(0, 1) + struct.pack("<Q", 2**63) + b"x",
         "truncated: 9223372036854775840 bytes are needed, the file has 33"),
        (HEAD + counts(0, 1) + pair(b"a", 13, b""), "unknown value type 13 before byte 37"),
        (HEAD + counts(0, 1) + pair(b"a", 9, struct.pack("<IQ", 4, 2**62)), NEEDS_2_64),
        (HEAD + counts(0, 1) + pair(b"a", 9, struct.pack("<IQ", 8, 2**61)), NEEDS_2_64),
        (HEAD + counts(0, 1) + pair(b"a", 9, struct.pack("<IQ", 9, 1)), "unknown value type 9 before byte 49"),
        (HEAD + counts(0, 1) + pair(b"a", 8, struct.pack("<Q", 1) + b"\xff"), "the string at byte 37 is no UTF-8"),
        (HEAD + counts(0, 2) + 2 * pair(b"a", 0, b"1"), "duplicate metadata a"),
        (HEAD + counts(0, 1) + pair(b"general.alignment", 4, struct.pack("<I", 0)),
         "general.alignment is 0, a positive number is needed"),
        (HEAD + counts(1, 0) + tensor(b"t", [1] * 5, 0, 0), "t has 5 dimensions, 4 is the limit"),
        (HEAD + counts(1, 0) + tensor(b"t", [4], 999, 0), "t has the type 999, which the gguf library does not know"),
        (HEAD + counts(1, 0) + tensor(b"t", [33], 8, 0), "t [33]: rows of Q8_0 are a multiple of 32 long"),
        (HEAD + counts(1, 0) + tensor(b"t", [4], 0, 0) + bytes(10), "truncated: t ends at byte 80, the file has 67"),
        (HEAD + counts(2, 0) + 2 * tensor(b"t", [1], 0, 0) + bytes(99), "duplicate tensor t"),
    ],
)  # fmt: skip
def test_broken_file(tmp_path: Path, target: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    assert refusal(path, target) == reason


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tiny_gguf.write(tmp_path / "m.gguf", tiny_gguf.weights(), kind="Q8_0")
    whole = path.read_bytes()
    needed = max(tensor.offset + tensor.num_bytes for tensor in open_gguf(path).tensors.values())
    for length in [*range(0, needed, 1009), needed - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(CheckFailedError):
            open_gguf(path)


def test_the_library_reads_the_same(tmp_path: Path) -> None:
    import gguf

    path = tiny_gguf.write(tmp_path / "m.gguf", tiny_gguf.weights(tied=False), kind="Q4_1")
    ours, library = open_gguf(path), gguf.GGUFReader(path)
    assert list(ours.tensors) == [tensor.name for tensor in library.tensors]
    for tensor in library.tensors:
        mine = ours.tensors[tensor.name]
        assert (mine.type_id, mine.offset, mine.num_bytes) == (
            tensor.tensor_type, tensor.data_offset, tensor.n_bytes
        )  # fmt: skip
        assert mine.shape == tuple(reversed(tensor.shape.tolist()))
    for name, field in library.fields.items():
        if not name.startswith("GGUF."):
            assert ours.metadata[name] == field.contents()
