"""The operators that stand in for upstream's mean what vLLM's own torch code means, and what its callers rely on."""

from functools import partial
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")


def routed(rows, k):
    return torch.empty(rows, k), *(torch.empty(rows, k, dtype=torch.int32) for _ in range(2))


def dense(weights, ids, experts):
    """Weights by expert, so that the order of the winners does not matter."""
    return torch.zeros(weights.size(0), experts).scatter(1, ids.long(), weights.float())


@pytest.mark.parametrize("renormalise", [False, True])
@pytest.mark.parametrize(("experts", "k"), [(8, 2), (60, 4), (128, 8), (512, 10)])
def test_softmax_routing(volta, experts, k, renormalise):
    from vllm.model_executor.layers.fused_moe.router.cpu_router import _softmax_topk

    logits = torch.randn(70, experts, generator=torch.Generator().manual_seed(experts)) * 3
    weights, ids, rows = routed(70, k)
    volta.topk_softmax(weights, ids, rows, logits, renormalise, None, None)
    expected = dense(*_softmax_topk(logits, k, renormalise), experts)
    torch.testing.assert_close(dense(weights, ids, experts), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("scoring", ["sigmoid", "softmax"])
@pytest.mark.parametrize("renormalise", [False, True])
def test_grouped_routing(volta, scoring, renormalise):
    from vllm.model_executor.layers.fused_moe.router.cpu_router import _grouped_topk

    g = torch.Generator().manual_seed(7)
    logits, bias = torch.randn(70, 256, generator=g) * 2, torch.randn(256, generator=g) * 0.1
    expected = dense(*_grouped_topk(logits, 8, renormalise, 8, 4, scoring, 2.5, bias), 256)
    given = logits if scoring == "sigmoid" else torch.softmax(logits, dim=-1)  # as upstream's caller does
    weights, ids = volta.grouped_topk(given, 8, 4, 8, renormalise, 2.5, bias, int(scoring == "sigmoid"))
    torch.testing.assert_close(dense(weights, ids, 256), expected, rtol=1e-5, atol=1e-7)


def test_repetition_penalties(volta):
    from vllm._custom_ops import apply_repetition_penalties_torch

    g = torch.Generator().manual_seed(3)
    logits, penalties = torch.randn(5, 4001, generator=g) * 8, torch.rand(5, generator=g) + 0.7
    masks = [torch.rand(5, 4001, generator=g) < 0.1 for _ in range(2)]
    expected = logits.clone()
    apply_repetition_penalties_torch(expected, *masks, penalties)
    volta.apply_repetition_penalties_(logits, *masks, penalties)
    torch.testing.assert_close(logits, expected, rtol=3e-7, atol=0.0)


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_embedding_of_every_rank(volta, ranks, dtype):
    from vllm.model_executor.layers import vocab_parallel_embedding as upstream

    mask_of = upstream.get_masked_input_and_mask
    mask_of = getattr(mask_of, "_torchdynamo_orig_callable", mask_of)
    org, all_words = 1010, 1026
    padded_org, padded = upstream.pad_vocab_size(org, 64), upstream.pad_vocab_size(1024 + 16, 64)
    g = torch.Generator().manual_seed(ranks)
    ids = torch.randint(0, all_words, (300,), generator=g, dtype=dtype)
    for rank in range(ranks):
        part = upstream.VocabParallelEmbedding._get_indices(padded, padded_org, all_words, org, rank, ranks)
        numbers = (
            part.org_vocab_start_index,
            part.org_vocab_end_index,
            part.num_org_vocab_padding,
            part.added_vocab_start_index,
            part.added_vocab_end_index,
        )
        weight = torch.randn(padded // ranks, 48, generator=g).half()
        masked, away = mask_of(ids, *numbers)
        expected = torch.nn.functional.embedding(masked.long(), weight).masked_fill(away.unsqueeze(-1), 0)
        out = torch.full((300, 48), float("nan")).half()
        volta.vocab_parallel_embedding(out, ids, weight, *numbers)
        assert torch.equal(out, expected)


def grouped_product(x, weights, aligned, block, k):
    """What upstream's fused_moe_kernel does with an alignment: one product a block, nothing for expert -1."""
    order, block_experts, total = aligned
    entries = x.size(0) * k
    out = torch.full((entries, weights.size(-1)), float("nan"))
    for number in range(int(total) // block):
        places = order[number * block : (number + 1) * block]
        places = places[places < entries].long()
        expert = int(block_experts[number])
        out[places] = 0.0 if expert == -1 else x[places // k] @ weights[expert]
    return out.view(x.size(0), k, -1)


@pytest.mark.parametrize("mapped", [None, "kept", "ignored"])
@pytest.mark.parametrize(("tokens", "block"), [(1, 16), (7, 4), (90, 16)])
def test_a_mixture_of_experts_from_end_to_end(volta, monkeypatch, tokens, block, mapped):
    from vllm.model_executor.layers.fused_moe import moe_align_block_size as upstream

    here = {name: getattr(volta, name) for name in ("moe_align_block_size", "batched_moe_align_block_size")}
    monkeypatch.setattr(upstream, "ops", SimpleNamespace(**here))
    g = torch.Generator().manual_seed(tokens)
    experts, k, local = 24, 4, 24 if mapped is None else 9
    expert_map = torch.full((experts,), -1, dtype=torch.int32)
    expert_map[torch.randperm(experts, generator=g)[:local]] = torch.arange(local, dtype=torch.int32)
    expert_map = None if mapped is None else expert_map
    x, weights = torch.randn(tokens, 16, generator=g), torch.randn(local, 16, 8, generator=g)
    scores, ids, rows = routed(tokens, k)
    volta.topk_softmax(scores, ids, rows, torch.randn(tokens, experts, generator=g), True, None, None)
    aligned = upstream.moe_align_block_size(ids, block, experts, expert_map, ignore_invalid_experts=mapped == "ignored")
    parts = grouped_product(x, weights, aligned, block, k) * scores.unsqueeze(-1)
    result = torch.empty(tokens, 8)
    volta.moe_sum(parts, result, None if mapped is None else ids, expert_map)
    expected = torch.zeros(tokens, 8)
    for token in range(tokens):
        for j in range(k):
            expert = int(ids[token, j]) if mapped is None else int(expert_map[ids[token, j]])
            if expert >= 0:
                expected[token] += scores[token, j] * (x[token] @ weights[expert])
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


def test_batches_are_aligned_as_upstream_documents(volta, monkeypatch):
    from vllm.model_executor.layers.fused_moe import moe_align_block_size as upstream

    operator = volta.batched_moe_align_block_size
    monkeypatch.setattr(upstream, "ops", SimpleNamespace(batched_moe_align_block_size=operator))
    counts = torch.tensor([2, 3, 0, 6, 8], dtype=torch.int32)
    order, experts, total = upstream.batched_moe_align_block_size(8, 4, counts)
    lists = [0, 1, 40, 40, 8, 9, 10, 40, *range(24, 30), 40, 40, *range(32, 40)]
    assert order.tolist() == lists + [40] * (40 - len(lists))
    assert experts.tolist() == [0, 1, 3, 3, 4, 4, -1, -1, -1, -1]
    assert total.tolist() == [24]


def layers():
    """vLLM's own activation layers that our operators stand in for, by the operator's name, with its parameters."""
    from vllm.model_executor.layers import activation

    yield "mul_and_silu", (), activation.MulAndSilu
    for threshold in (0.0, 0.3, -2.5):
        yield "fatrelu_and_mul", (threshold,), activation.FatreluAndMul
    for parameters in ((7.0, 1.0, 0.0), (2.3, 1.702, 1.0)):
        yield "silu_and_mul_with_clamp", parameters, activation.SiluAndMulWithClamp
    for parameters in ((1.702, 7.0), (1.0, 2.3)):
        yield "swigluoai_and_mul", parameters, activation.SwigluOAIAndMul


def gated_by_both(volta, dtype):
    """(name, parameters, ours, the layer's forward_native) on the same inputs, which have NaN and infinities."""
    from vllm.config import VllmConfig, set_current_vllm_config

    g = torch.Generator().manual_seed(11)
    x = (torch.randn(40, 2 * 333, generator=g) * 5).to(dtype)
    x[0, 333:337] = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0])
    with set_current_vllm_config(VllmConfig()):
        for name, parameters, layer in layers():
            ours = torch.full((40, 333), -1.0, dtype=dtype)
            getattr(volta, name)(ours, x, *parameters)
            yield name, parameters, ours, layer(*parameters).forward_native(x)


def test_gated_activations_in_float32(volta):
    for name, parameters, ours, theirs in gated_by_both(volta, torch.float32):
        told = partial("{} {}: {}".format, name, parameters)
        torch.testing.assert_close(ours, theirs, rtol=2e-6, atol=1e-9, equal_nan=True, msg=told)


def test_gated_activations_in_float16(volta):
    """Where torch rounds as often as upstream's kernel, the same halves; elsewhere as close as its roundings allow.

    torch rounds alpha * gate, of which up to 10 is left before the sigmoid is subnormal, and then each of five steps; a
    subnormal sigmoid is off by up to 2^-25, times a gate of up to 25 and an up of up to 8.
    """
    for name, parameters, ours, theirs in gated_by_both(volta, torch.float16):
        same = name in {"mul_and_silu", "fatrelu_and_mul"}
        rtol, atol = (0.0, 0.0) if same else (15 * 2.0**-11, 200 * 2.0**-25)
        told = partial("{} {}: {}".format, name, parameters)
        torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol, equal_nan=True, msg=told)
