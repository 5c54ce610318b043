# ruff: noqa: S101 - a check is an assertion
"""What only a GPU shows: CUDA graphs, streams, torch.compile on the device, many elements, errors of the launch."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from kernels.checks.compare import HALF, generator, normal, same_bits
from kernels.checks.rotary import cos_sin


def _layer(x: Tensor, residual: Tensor, weight: Tensor, cache: Tensor, state: dict[str, Tensor]) -> Tensor:
    """One use of every operator of a dense layer, each into buffers that it owns or that `state` holds."""
    ops = torch.ops.volta
    tokens = x.size(0)
    normed = torch.empty_like(x)
    ops.rms_norm(normed, x, weight, 1e-6)
    ops.fused_add_rms_norm(normed, residual, weight, 1e-6)
    ops.gemma_rms_norm(normed, normed, residual, weight, 1e-6)
    gated = torch.empty(tokens, x.size(1) // 2, dtype=x.dtype, device=x.device)
    ops.silu_and_mul(gated, normed)
    heads = gated.unflatten(1, (-1, 64))
    ops.rotary_embedding(state["positions"], heads, None, 64, cache, True)
    kv = state["kv"]
    ops.dcp_slot_mapping(state["slots"], state["positions"], state["starts"], state["table"], 16, 2, 1, 4)
    ops.dcp_local_seq_lens(state["lengths"], state["seq_lens"], 2, 1, 4)
    ops.kv_cache_write(heads, heads, kv[:, :, :, :64], kv[:, :, :, 64:], state["slots"], state["scale"], state["scale"])
    ops.reshape_and_cache_flash(
        heads, heads, kv[:, :, :, :64], kv[:, :, :, 64:], state["slots"], "fp8", state["scale"], state["scale"]
    )
    dense = torch.zeros(2, *heads.shape, dtype=x.dtype, device=x.device)
    ops.kv_cache_gather(
        kv[..., :64],
        kv[..., 64:],
        state["table"],
        state["starts"],
        None,
        dense[0],
        dense[1],
        state["scale"],
        state["scale"],
    )
    merged = torch.empty_like(heads)
    ops.merge_attention(merged, None, dense, state["lse"], True)
    again = torch.empty_like(heads)
    ops.merge_attn_states(again, None, merged, state["lse"][0].T, dense[1], state["lse"][1].T, tokens // 2)
    return again


def _experts(x: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """Routing, alignment, the sum over experts, look-ups and penalties, into buffers of its own."""
    ops = torch.ops.volta
    tokens, experts, k, block = x.size(0), 24, 4, 16
    ints = partial(torch.empty, dtype=torch.int32, device=x.device)
    weights, ids, rows = torch.empty(tokens, k, device=x.device), ints(tokens, k), ints(tokens, k)
    ops.topk_softmax(weights, ids, rows, x[:, :experts], True, None, None)
    grouped = ops.grouped_topk(x[:, :experts], 4, 2, k, True, 1.0, x[0, :experts], 1)
    room = tokens * k + experts * (block - 1)
    order, block_experts, total = ints(room), ints(-(-room // block)), ints(1)
    ops.moe_align_block_size(ids, experts, block, order, block_experts, total, None)
    summed, looked_up, shuffled = (torch.empty_like(x) for _ in range(3))
    ops.moe_sum(x.unsqueeze(1).expand(-1, k, -1), summed, ids)
    ops.vocab_parallel_embedding(looked_up, state["positions"], x, 3, 90, 0, 90, 90)
    ops.shuffle_rows(x, ids[:, 0].contiguous(), shuffled)
    penalised = x.clone()
    ops.apply_repetition_penalties_(penalised, x > 1, x < -1, x[:, 0].abs())
    return weights, ids, rows, *grouped, order, block_experts, total, summed, looked_up, shuffled, penalised


def _state(tokens: int, heads: int, g: torch.Generator) -> dict[str, Tensor]:
    device = g.device
    return {
        "positions": torch.randperm(100, generator=g, device=device)[:tokens],
        "slots": torch.full((tokens,), 1, device=device),
        "seq_lens": torch.randint(0, 9999, (2,), generator=g, device=device, dtype=torch.int32),
        "lengths": torch.full((2,), 99, dtype=torch.int32, device=device),
        "kv": torch.zeros(4, 16, heads, 128, dtype=torch.uint8, device=device).view(torch.float8_e4m3fn),
        "scale": torch.tensor([0.05], device=device),
        "table": torch.arange(4, dtype=torch.int32, device=device).unsqueeze(0),
        "starts": torch.tensor([0, tokens], dtype=torch.int32, device=device),
        "lse": normal((2, tokens, heads), torch.float32, g),
    }


def replayed_graph(seed: int) -> None:
    """A captured graph, replayed with changed inputs, gives what the same calls give without a graph."""
    g = generator("cuda", seed)
    tokens, columns = 37, 512
    weight, cache = normal((columns,), HALF, g), cos_sin(100, 64, HALF, "cuda")
    x, residual, state = normal((tokens, columns), HALF, g), normal((tokens, columns), HALF, g), _state(tokens, 4, g)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # the first use of the kernels, so their code is loaded during the capture
        captured = _layer(x, residual, weight, cache, state)
        routed = _experts(x, state)
    for _ in range(3):
        x.copy_(normal((tokens, columns), HALF, g))
        residual.copy_(normal((tokens, columns), HALF, g))
        for name, fresh in _state(tokens, 4, g).items():
            state[name].view(torch.uint8).copy_(fresh.view(torch.uint8))
        kept = residual.clone(), {name: value.clone() for name, value in state.items()}
        graph.replay()
        expected = _layer(x, kept[0], weight, cache, kept[1])
        same_bits(captured, expected, "graph replay")
        for result, wanted in zip(routed, _experts(x, kept[1]), strict=True):
            same_bits(result, wanted, "graph replay of routing")
        same_bits(residual, kept[0], "residual of the replay")
        for name, value in state.items():
            same_bits(value.view(torch.uint8), kept[1][name].view(torch.uint8), f"{name} of the replay")


def sampled_graph(seed: int) -> None:
    """Verification in a captured graph follows changed logits, parameters, drafts and uniforms, as on the CPU."""
    g = generator("cuda", seed)
    requests, drafts, vocabulary = 6, 3, 5000
    rows = requests * (drafts + 1)

    def fresh() -> dict[str, Tensor]:
        return {
            "logits": normal((rows, vocabulary), HALF, g, 4.0),
            "temperature": torch.randint(0, 4, (requests,), generator=g, device=g.device) * 0.5,
            "top_k": torch.randint(1, 60, (requests,), generator=g, device=g.device, dtype=torch.int32),
            "top_p": torch.rand(requests, generator=g, device=g.device),
            "rows": torch.arange(rows, device=g.device, dtype=torch.int32) // (drafts + 1),
            "drafts": torch.randint(-1, vocabulary, (requests, drafts), generator=g, device=g.device),
            "accept": torch.rand(requests, drafts, generator=g, device=g.device) ** 4,
            "sample": torch.rand(requests, generator=g, device=g.device),
        }

    def verify(state: dict[str, Tensor]) -> tuple[Tensor, ...]:
        device = state["logits"].device
        tokens, shares = torch.empty(rows, 64, dtype=torch.int32, device=device), torch.empty(rows, 64, device=device)
        counts, number = (torch.empty(n, dtype=torch.int32, device=device) for n in (rows, requests))
        sampled = torch.empty(requests, drafts + 1, dtype=torch.int64, device=device)
        by = (state[name] for name in ("temperature", "top_k", "top_p", "rows"))
        torch.ops.volta.topk_topp_support(tokens, shares, counts, state["logits"], *by)
        torch.ops.volta.compact_rejection(
            sampled, number, state["drafts"], tokens, shares, counts, state["accept"], state["sample"]
        )
        return tokens, shares, counts, sampled, number

    state = fresh()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = verify(state)
    for _ in range(3):
        changed = fresh()
        best = changed["logits"].unflatten(0, (requests, drafts + 1))[:, :drafts].argmax(-1)
        changed["drafts"][::2] = best[::2]
        for name, value in changed.items():
            state[name].copy_(value)
        graph.replay()
        for result, expected in zip(captured, verify({k: v.cpu() for k, v in state.items()}), strict=True):
            same_bits(result.cpu(), expected, "verification in a graph")


def side_stream(seed: int) -> None:
    """Kernels follow torch's current stream: work behind a long kernel on a side stream sees its results."""
    g = generator("cuda", seed)
    x = torch.zeros(4096, 4096, dtype=HALF, device="cuda")
    fresh = normal((4096, 4096), HALF, g)
    expected = torch.empty_like(fresh)
    torch.ops.volta.rms_norm(expected, fresh, None, 1e-6)
    result, stream = torch.empty_like(x), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # the copy and the operator wait behind it
        x.copy_(fresh)
        torch.ops.volta.rms_norm(result, x, None, 1e-6)
    stream.synchronize()
    same_bits(result, expected, "rms_norm on a side stream")


def compiled(seed: int) -> None:
    """torch.compile, the whole function as one graph, gives the same bits as eager."""
    g = generator("cuda", seed)
    x, residual = normal((64, 2048), HALF, g), normal((64, 2048), HALF, g)
    weight = normal((2048,), HALF, g)

    def block(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        out, total = x.clone(), residual.clone()
        torch.ops.volta.fused_add_rms_norm(out, total, weight, 1e-6)
        gated = torch.empty(64, 1024, dtype=HALF, device=x.device)
        torch.ops.volta.silu_and_mul(gated, out)
        return gated, total

    for result, expected in zip(torch.compile(block, fullgraph=True)(x, residual), block(x, residual), strict=True):
        same_bits(result, expected, "compiled")


def many_elements() -> None:
    """More than 2^31 elements: the last row is right."""
    rows, columns = 2**31 // 4096 + 3, 4096
    x = torch.ones(rows, columns, dtype=HALF, device="cuda")
    x[-1] = 2
    torch.ops.volta.rms_norm(x, x, torch.full((columns,), 3.0, dtype=HALF, device="cuda"), 0.0)
    assert (x[-1] == 3).all(), "the last row"
    assert (x[0] == 3).all(), "the first row"
    out = torch.empty(rows, columns // 2, dtype=HALF, device="cuda")
    x[-1, columns // 2 :] = 5
    torch.ops.volta.silu_and_mul(out, x)
    assert (out[-1] > 14).all(), "silu(3) * 5"
    ids, looked_up = torch.tensor([rows - 1, rows], device="cuda"), torch.empty(2, columns, dtype=HALF, device="cuda")
    torch.ops.volta.vocab_parallel_embedding(looked_up, ids, x, 0, rows, 0, rows, rows)
    same_bits(looked_up[0], x[-1], "the last row of a table")
    assert not looked_up[1].any(), "the row behind it"
    torch.ops.volta.moe_sum(x.unsqueeze(1), x)
    assert (x[-1, columns // 2 :] == 5).all(), "the last token's sum"


def mixed_devices() -> None:
    """A CPU tensor among CUDA ones is an error that names both."""
    x = torch.ones(2, 64, dtype=HALF, device="cuda")
    try:
        torch.ops.volta.rms_norm(x, x, torch.ones(64, dtype=HALF), 1e-6)
    except RuntimeError as error:
        text = str(error).splitlines()[0]
        assert text == "volta::rms_norm: weight is on the CPU but input is on cuda:0", text
    else:
        raise AssertionError("a weight on the CPU was accepted")
