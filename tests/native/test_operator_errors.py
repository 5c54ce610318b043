"""A wrong call ends in one sentence that names the operator and the argument; an empty one does nothing."""

import resource

import pytest

torch = pytest.importorskip("torch")
HALF = torch.float16


def half(*shape):
    return torch.zeros(*shape, dtype=HALF)


def cache(*shape):
    return torch.zeros(*shape, dtype=torch.uint8).view(torch.float8_e4m3fn)


def ints(*shape):
    return torch.zeros(*shape, dtype=torch.int32)


def routed(rows, k):
    return torch.zeros(rows, k), ints(rows, k), ints(rows, k)


def support(rows, width):
    """Tokens, probabilities and counts of topk_topp_support."""
    tokens = torch.zeros(rows, width, dtype=torch.int32)
    return tokens, torch.zeros(rows, width), torch.zeros(rows, dtype=torch.int32)


def rejected(requests, drafts):
    """The results of compact_rejection, and its drafts."""
    sampled = torch.zeros(requests, drafts + 1, dtype=torch.int64)
    return sampled, torch.zeros(requests, dtype=torch.int32), sampled[:, :drafts]


GATED = (
    ("silu_and_mul",),
    ("mul_and_silu",),
    ("fatrelu_and_mul", 0.0),
    ("silu_and_mul_with_clamp", 7.0),
    ("swigluoai_and_mul",),
)
ONE = torch.ones(1)
SLOTS = torch.zeros(2, dtype=torch.int64)
LSE = torch.zeros(1, 2)
_WRITE = (
    "(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_mapping, "
    "str kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()"
)
WRONG = {
    "dtype": (
        "rms_norm",
        lambda: (half(2, 8).bfloat16(), half(2, 8).bfloat16(), None, 1e-6),
        "input must be float16 or float32, not bfloat16",
    ),
    "mixed types": (
        "rms_norm",
        lambda: (half(2, 8), half(2, 8), half(8).float(), 1e-6),
        "weight must be float16, not float32",
    ),
    "weight's size": ("rms_norm", lambda: (half(2, 8), half(2, 8), half(9), 1e-6), "weight.size(0) must be 8, not 9"),
    "result's shape": ("rms_norm", lambda: (half(3, 8), half(2, 8), None, 1e-6), "result.size(0) must be 2, not 3"),
    "stride": (
        "rms_norm",
        lambda: (half(2, 8), half(8, 2).T, None, 1e-6),
        "input must have stride 1 in its last dimension, not 2",
    ),
    "scalar": ("rms_norm", lambda: (half(1)[0], half(1)[0], None, 1e-6), "input must have at least one dimension"),
    "rows": (
        "rms_norm",
        lambda: (half(2, 3, 4, 8), half(4, 9, 16, 8)[::2, ::3, ::4], None, 1e-6),
        "input has rows at more than two independent strides",
    ),
    "residual's type": (
        "gemma_rms_norm",
        lambda: (half(2, 8).float(), half(2, 8).float(), half(2, 8), half(8), 1e-6),
        "residual must be float32 when input is float32",
    ),
    "residual's shape": (
        "gemma_rms_norm",
        lambda: (half(2, 8), half(2, 8), half(2, 9), half(8), 1e-6),
        "residual.size(1) must be 8, not 9",
    ),
    "odd width": (
        "silu_and_mul",
        lambda: (half(2, 4), half(2, 9)),
        "the last dimension of input must be even: gate, then up",
    ),
    "odd width of pairs": (
        "swigluoai_and_mul",
        lambda: (half(2, 4), half(2, 9)),
        "the last dimension of input must be even: gate and up in turn",
    ),
    "odd width, up first": (
        "mul_and_silu",
        lambda: (half(2, 4), half(2, 9)),
        "the last dimension of input must be even: up, then gate",
    ),
    "half the width": (
        "fatrelu_and_mul",
        lambda: (half(2, 8), half(2, 8), 0.0),
        "result.size(-1) must be 4, not 8",
    ),
    "negative limit": (
        "silu_and_mul_with_clamp",
        lambda: (half(2, 4), half(2, 8), -1.0),
        "limit must be a number from 0 on",
    ),
    "limit that is no number": (
        "swigluoai_and_mul",
        lambda: (half(2, 4), half(2, 8), 1.702, float("nan")),
        "limit must be a number from 0 on",
    ),
    "rotated width": (
        "rotary_embedding",
        lambda: (SLOTS, half(2, 64), None, 32, half(9, 32), True, 8, False),
        "rope_dim_offset + cos_sin_cache.size(1) must be at most head_size",
    ),
    "positions": (
        "rotary_embedding",
        lambda: (SLOTS.int(), half(2, 64), None, 32, half(9, 32), True),
        "positions must be int64, not int32",
    ),
    "bytes": (
        "kv_cache_write",
        lambda: (half(2, 1, 8), half(2, 1, 8), cache(1, 4, 1, 8).view(torch.uint8), cache(1, 4, 1, 8), SLOTS, ONE, ONE),
        (
            "key_cache must be float16, float8_e4m3fn or float8_e5m2 "
            "(its type says the format: view a uint8 cache as one of them)"
        ),
    ),
    "heads": (
        "kv_cache_write",
        lambda: (half(2, 1, 8), half(2, 1, 8), cache(1, 4, 2, 8), cache(1, 4, 1, 8), SLOTS, ONE, ONE),
        "key_cache.size(2) must be 1, not 2",
    ),
    "too few keys": (
        "kv_cache_write",
        lambda: (half(1, 1, 8), half(2, 1, 8), cache(1, 4, 1, 8), cache(1, 4, 1, 8), SLOTS, ONE, ONE),
        "key and value must have a row for each slot of slot_mapping",
    ),
    "scales": (
        "kv_cache_write",
        lambda: (half(2, 1, 8), half(2, 1, 8), cache(1, 4, 1, 8), cache(1, 4, 1, 8), SLOTS, torch.ones(2), ONE),
        "k_scale and v_scale must hold one number, or one for each head",
    ),
    "number of value heads": (
        "kv_cache_write",
        lambda: (half(2, 1, 8), half(2, 2, 8), cache(1, 4, 1, 8), cache(1, 4, 2, 8), SLOTS, ONE, ONE),
        "value.size(1) must be 1, not 2",
    ),
    "format": (
        "reshape_and_cache_flash",
        lambda: (half(2, 1, 8), half(2, 1, 8), cache(1, 4, 1, 8), cache(1, 4, 1, 8), SLOTS, "fp8_inc", ONE, ONE),
        "kv_cache_dtype must be auto, float16, fp8, fp8_e4m3 or fp8_e5m2, not fp8_inc",
    ),
    "another format": (
        "reshape_and_cache_flash",
        lambda: (half(2, 1, 8), half(2, 1, 8), cache(1, 4, 1, 8), cache(1, 4, 1, 8), SLOTS, "fp8_e5m2", ONE, ONE),
        "key_cache must be float8_e5m2, not float8_e4m3fn",
    ),
    "no format": (
        "reshape_and_cache_flash",
        lambda: (half(2, 1, 8), half(2, 1, 8), cache(1, 4, 1, 8), cache(1, 4, 1, 8), SLOTS, "auto", ONE, ONE),
        "key_cache must be float16, not float8_e4m3fn",
    ),
    "not split": (
        "reshape_and_cache",
        lambda: (half(2, 1, 8), half(2, 1, 8), half(1, 4, 1, 8), half(1, 1, 8, 4), SLOTS, "auto", ONE, ONE),
        "key_cache must have 5 dimensions, not 4",
    ),
    "split": (
        "reshape_and_cache",
        lambda: (half(2, 1, 8), half(2, 1, 8), half(1, 1, 2, 4, 8), half(1, 1, 8, 4), SLOTS, "auto", ONE, ONE),
        "key_cache.size(2) times key_cache.size(4) must be the head size of key",
    ),
    "scaled output": (
        "merge_attn_states",
        lambda: (half(2, 1, 8), None, half(2, 1, 8), LSE, half(2, 1, 8), LSE, None, ONE),
        "output_scale asks for an FP8 output, which these kernels do not write",
    ),
    "tokens with context": (
        "merge_attn_states",
        lambda: (half(2, 1, 8), None, half(2, 1, 8), LSE, half(2, 1, 8), LSE, 3),
        "prefill_tokens_with_context must be between 0 and the number of tokens",
    ),
    "order of the log-sum-exps": (
        "merge_attn_states",
        lambda: (half(2, 1, 8), None, half(2, 1, 8), LSE.T, half(2, 1, 8), LSE, None),
        "prefix_lse.size(0) must be 1, not 2",
    ),
    "no such block": (
        "swap_blocks",
        lambda: (half(2, 8), half(2, 8), 16, torch.tensor([[0, 2]])),
        "dst has no block 2",
    ),
    "sizes": (
        "swap_blocks_batch",
        lambda: (SLOTS, SLOTS, SLOTS[:1]),
        "sizes.size(0) must be 2, not 1",
    ),
    "rank": (
        "dcp_local_seq_lens",
        lambda: (SLOTS.int(), SLOTS.int(), 2, 2, 1),
        "rank must be from 0 to dcp - 1",
    ),
    "room for lengths": (
        "dcp_local_seq_lens",
        lambda: (SLOTS[:1].int(), SLOTS.int(), 2, 0, 1),
        "result must have an entry for each of seq_lens",
    ),
    "interleave": (
        "dcp_slot_mapping",
        lambda: (SLOTS, SLOTS, SLOTS.int(), SLOTS.int().view(1, 2), 24, 2, 0, 16),
        "block_size must be a multiple of interleave",
    ),
    "slots": (
        "dcp_slot_mapping",
        lambda: (SLOTS.int(), SLOTS, SLOTS.int(), SLOTS.int().view(1, 2), 16, 2, 0, 1),
        "slot_mapping must be int64, not int32",
    ),
    "bfloat16 logits": (
        "topk_softmax",
        lambda: (*routed(2, 2), half(2, 8).bfloat16(), True, None, None),
        "gating_output must be float16 or float32, not bfloat16",
    ),
    "more than all experts": (
        "topk_softmax",
        lambda: (*routed(2, 9), half(2, 8), True, None, None),
        "topk_weights has more columns than there are experts",
    ),
    "bias's type": (
        "topk_sigmoid",
        lambda: (*routed(2, 2), half(2, 8), True, half(8), 1.0, None),
        "bias must be float32, not float16",
    ),
    "type of ids": (
        "topk_softmax",
        lambda: (ints(2, 2).float(), ints(2, 2).short(), ints(2, 2), half(2, 8), True, None, None),
        "topk_indices must be int32 or int64, not another type",
    ),
    "strided logits": (
        "topk_softmax",
        lambda: (*routed(2, 2), half(8, 2).T, True, None, None),
        "gating_output must have stride 1 in its last dimension, not 2",
    ),
    "no tokens for the table": (
        "topk_softplus_sqrt",
        lambda: (*routed(2, 2), half(2, 8), True, 1.0, None, None, ints(9, 2), None),
        "tid2eid and bias_vl need input_ids",
    ),
    "groups": (
        "grouped_topk",
        lambda: (half(2, 64), 33, 1, 1, True, 1.0, half(64), 0),
        "n_group must be between 1 and 32",
    ),
    "uneven groups": (
        "grouped_topk",
        lambda: (half(2, 64), 7, 1, 1, True, 1.0, half(64), 0),
        "the number of experts must be a multiple of n_group",
    ),
    "experts of too few groups": (
        "grouped_topk",
        lambda: (half(2, 64), 8, 2, 17, True, 1.0, half(64), 0),
        "topk must be between 1 and the number of experts in topk_group groups",
    ),
    "scoring": (
        "grouped_topk",
        lambda: (half(2, 64), 8, 2, 4, True, 1.0, half(64), 2),
        "scoring_func must be 0 (scores as they are) or 1 (sigmoid)",
    ),
    "penalties' type": (
        "apply_repetition_penalties_",
        lambda: (half(2, 8).float(), half(2, 8).bool(), half(2, 8).bool(), half(2)),
        "repetition_penalties must be float32, not float16",
    ),
    "strided mask": (
        "apply_repetition_penalties_",
        lambda: (half(2, 8), half(8, 2).bool().T, half(2, 8).bool(), half(2)),
        "prompt_mask must be contiguous",
    ),
    "too many experts": (
        "moe_align_block_size",
        lambda: (ints(2, 2), 5000, 16, ints(9), ints(9), ints(1), None),
        "num_experts must be between 1 and 4096",
    ),
    "block": (
        "moe_align_block_size",
        lambda: (ints(2, 2), 8, 0, ints(9), ints(9), ints(1), None),
        "block_size must be positive",
    ),
    "places beyond int32": (
        "moe_align_block_size",
        lambda: (ints(2, 2), 4096, 2**20, ints(9), ints(9), ints(1), None),
        "the number of entries with their padding must be between 0 and 2147483647, not 4294965252",
    ),
    "short map": (
        "moe_align_block_size",
        lambda: (ints(2, 2), 8, 16, ints(9), ints(9), ints(1), ints(7)),
        "maybe_expert_map must have an entry for each of num_experts",
    ),
    "adapters' parts": (
        "moe_lora_align_block_size",
        lambda: (ints(2, 2), ints(2), 8, 16, 2, 64, 4, ints(127), ints(8), ints(2), ints(2), ints(3), None),
        "sorted_token_ids, experts_ids and num_tokens_post_pad must have a part for each of max_loras",
    ),
    "counts": (
        "batched_moe_align_block_size",
        lambda: (8, 4, ints(5).long(), ints(40), ints(10), ints(1)),
        "expert_num_tokens must be int32, not int64",
    ),
    "sum's shape": (
        "moe_sum",
        lambda: (half(2, 4, 8), half(2, 9)),
        "output must have as many elements as input has for one expert",
    ),
    "map without ids": ("moe_sum", lambda: (half(2, 4, 8), half(2, 8), None, ints(8)), "expert_map needs topk_ids"),
    "embedding's type": (
        "vocab_parallel_embedding",
        lambda: (half(2, 8), SLOTS, half(9, 8).float(), 0, 9, 0, 9, 9),
        "out must be float32, not float16",
    ),
    "width": (
        "topk_topp_support",
        lambda: (*support(2, 1025), half(2, 2000), torch.ones(2), SLOTS.int(), torch.ones(2)),
        "tokens must have room for 1 to 1024 of each row",
    ),
    "requests": (
        "topk_topp_support",
        lambda: (*support(2, 8), half(2, 2000), ONE, SLOTS[:1].int(), ONE),
        "without request_of_row, temperature must have an entry for each row",
    ),
    "top_k's type": (
        "topk_topp_support",
        lambda: (*support(2, 8), half(2, 2000), torch.ones(2), SLOTS, torch.ones(2)),
        "top_k must be int32, not int64",
    ),
    "rows of drafts": (
        "compact_rejection",
        lambda: (*rejected(2, 3), *support(7, 8), torch.ones(2, 3), torch.ones(2)),
        "tokens.size(0) must be 8, not 7",
    ),
    "uniforms": (
        "compact_rejection",
        lambda: (*rejected(2, 3), *support(8, 8), torch.ones(2, 4), torch.ones(2)),
        "accept_uniform.size(1) must be 3, not 4",
    ),
    "parts": (
        "merge_attention",
        lambda: (half(2, 1, 8).float(), None, half(2, 2, 1, 8), torch.zeros(2, 2, 1), True),
        "float16 parts merge into a float16 output only",
    ),
}

UPSTREAM = {
    "mul_and_silu": "(Tensor(a!) out, Tensor input) -> ()",
    "fatrelu_and_mul": "(Tensor(a!) out, Tensor input, float threshold) -> ()",
    "silu_and_mul_with_clamp": "(Tensor(a!) result, Tensor input, float limit, float alpha=1., float beta=0.) -> ()",
    "swigluoai_and_mul": "(Tensor(a!) out, Tensor input, float alpha=1.702, float limit=7.) -> ()",
    "reshape_and_cache_flash": _WRITE,
    "reshape_and_cache": _WRITE,
    "swap_blocks": "(Tensor src, Tensor(a!) dst, int block_size_in_bytes, Tensor block_mapping) -> ()",
    "swap_blocks_batch": ("(Tensor src_ptrs, Tensor dst_ptrs, Tensor sizes, bool is_src_access_order_any=False) -> ()"),
    "merge_attn_states": (
        "(Tensor(a!) output, Tensor(b!)? output_lse, Tensor prefix_output, Tensor prefix_lse, Tensor suffix_output, "
        "Tensor suffix_lse, int? prefill_tokens_with_context, Tensor? output_scale=None) -> ()"
    ),
    "weak_ref_tensor": "(Tensor input) -> Tensor",
    "get_cuda_view_from_cpu_tensor": "(Tensor cpu_tensor) -> Tensor",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_one_clear_sentence(name, volta):
    operator, arguments, message = WRONG[name]
    with pytest.raises(RuntimeError) as caught:
        getattr(volta, operator)(*arguments())
    assert str(caught.value).splitlines()[0] == f"volta::{operator}: {message}"


def test_no_driver_is_said_plainly(volta):
    if torch.cuda.is_available():
        pytest.skip("this machine has a driver")
    with pytest.raises(RuntimeError, match=r"^volta: no NVIDIA driver on this machine: libcuda\.so\.1"):
        volta.prepare(0)
    with pytest.raises(RuntimeError, match=r"^volta: no NVIDIA driver on this machine: libcuda\.so\.1"):
        volta.get_cuda_view_from_cpu_tensor(torch.ones(2))


@pytest.mark.parametrize("shape", [(0, 8), (3, 0), (0, 0)])
def test_empty_tensors_are_no_work(shape, volta):
    volta.rms_norm(half(*shape), half(*shape), None, 1e-6)
    volta.fused_add_rms_norm(half(*shape), half(*shape), None, 1e-6)
    volta.gemma_rms_norm(half(*shape), half(*shape), half(*shape), half(shape[1]), 1e-6)
    for gated, *parameters in GATED:
        getattr(volta, gated)(half(*shape), half(shape[0], 2 * shape[1]), *parameters)
    volta.rotary_embedding(SLOTS[:0], half(0, 64), half(0, 32), 32, half(9, 32), True)
    table, starts = torch.zeros(0, 3, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    volta.kv_cache_gather(
        cache(1, 4, 1, 8), cache(1, 4, 1, 8), table, starts, None, half(2, 1, 8), half(2, 1, 8), ONE, ONE
    )
    volta.dcp_local_seq_lens(SLOTS[:0].int(), SLOTS[:0].int(), 2, 1, 1)
    volta.dcp_slot_mapping(SLOTS[:0], SLOTS[:0], starts, table, 16, 2, 1, 1)
    volta.topk_topp_support(*support(0, 8), half(0, 100), ONE, SLOTS[:1].int(), ONE)
    volta.compact_rejection(*rejected(0, 3), *support(0, 8), torch.ones(0, 3), torch.ones(0))
    volta.merge_attention(half(0, 1, 8), None, half(2, 0, 1, 8), torch.zeros(2, 0, 1), True)
    volta.topk_softmax(*routed(0, 2), half(0, 8), True, None, None)
    assert [x.shape for x in volta.grouped_topk(half(0, 8), 2, 1, 3, True, 1.0, half(8), 1)] == [(0, 3), (0, 3)]
    volta.apply_repetition_penalties_(half(*shape), half(*shape).bool(), half(*shape).bool(), half(shape[0]))
    volta.moe_sum(half(shape[0], 2, shape[1]), half(*shape))
    volta.vocab_parallel_embedding(half(0, shape[1]), SLOTS[:0], half(9, shape[1]), 0, 9, 0, 9, 9)
    volta.shuffle_rows(half(9, shape[1]), ints(0), half(0, shape[1]))
    for op in (volta.kv_cache_write, volta.reshape_and_cache_flash):
        name = ("fp8",) if op is volta.reshape_and_cache_flash else ()
        op(half(0, 1, 8), half(0, 1, 8), cache(0, 4, 1, 8), cache(0, 4, 1, 8), SLOTS[:0], *name, ONE, ONE)
    volta.reshape_and_cache(
        half(0, 1, 8), half(0, 1, 8), half(0, 1, 1, 4, 8), half(0, 1, 8, 4), SLOTS[:0], "auto", ONE, ONE
    )
    volta.merge_attention(half(0, 1, 8), None, half(2, 0, 1, 8), torch.zeros(2, 0, 1), True)
    volta.merge_attn_states(half(0, 1, 8), None, half(0, 1, 8), LSE[:, :0], half(0, 1, 8), LSE[:, :0], None)
    volta.swap_blocks(half(2, 8), half(2, 8), 16, torch.zeros(0, 2, dtype=torch.int64))
    volta.swap_blocks_batch(SLOTS[:0], SLOTS[:0], SLOTS[:0])


def test_operators_pass_torchs_own_check(volta):
    x, weight = torch.randn(4, 16).half(), torch.randn(16).half()
    torch.library.opcheck(volta.rms_norm.default, (torch.empty_like(x), x, weight, 1e-6))
    torch.library.opcheck(volta.fused_add_rms_norm.default, (x.clone(), x.clone(), None, 1e-6))
    torch.library.opcheck(volta.gemma_rms_norm.default, (torch.empty_like(x), x, x.clone(), weight, 1e-6))
    for gated, *parameters in GATED:
        torch.library.opcheck(getattr(volta, gated).default, (half(4, 8), x, *parameters))
    kept, lse = half(2, 1, 8), torch.zeros(1, 2)
    torch.library.opcheck(volta.merge_attn_states.default, (half(2, 1, 8), torch.zeros(1, 2), kept, lse, kept, lse, 1))
    cache = [torch.zeros(1, 4, 1, 8, dtype=torch.uint8) for _ in range(2)]
    torch.library.opcheck(
        volta.reshape_and_cache_flash.default, (half(2, 1, 8), half(2, 1, 8), *cache, SLOTS, "fp8", ONE, ONE)
    )
    torch.library.opcheck(volta.swap_blocks.default, (half(2, 8), half(2, 8), 16, torch.tensor([[0, 1]])))
    torch.library.opcheck(volta.topk_softmax.default, (*routed(4, 2), x, True, None, None))
    torch.library.opcheck(volta.grouped_topk.default, (x, 4, 2, 3, True, 1.0, torch.zeros(16), 1))
    masks = x > 1, x < -1
    torch.library.opcheck(volta.apply_repetition_penalties_.default, (x.clone(), *masks, weight[:4].clone()))
    align = (ints(4, 2), 8, 16, ints(64), ints(4), ints(1), None, ints(8))
    torch.library.opcheck(volta.moe_align_block_size.default, align)
    torch.library.opcheck(volta.moe_sum.default, (half(4, 2, 8), half(4, 8), ints(4, 2), ints(8)))
    torch.library.opcheck(volta.vocab_parallel_embedding.default, (half(2, 16), SLOTS, x, 0, 4, 0, 4, 4))


def test_fakes_of_new_tensors_have_their_shape_strides_and_device(volta):
    with torch._subclasses.FakeTensorMode():
        x = torch.empty(4, 6, dtype=HALF).T
        alias, view = volta.weak_ref_tensor(x), volta.get_cuda_view_from_cpu_tensor(x)
    assert (alias.shape, alias.stride(), alias.dtype, alias.device.type) == ((6, 4), (1, 6), HALF, "cpu")
    assert (view.shape, view.stride(), view.dtype, view.device.type) == ((6, 4), (1, 6), HALF, "cuda")


def test_torch_compile_takes_them_in_one_graph(volta):
    def block(x, residual):
        out, total = x.clone(), residual.clone()
        volta.fused_add_rms_norm(out, total, None, 1e-6)
        gated = torch.empty(4, 8, dtype=HALF)
        volta.silu_and_mul(gated, out)
        return gated, total

    x, residual = torch.randn(4, 16).half(), torch.randn(4, 16).half()
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    for result, expected in zip(compiled(x, residual), block(x, residual), strict=True):
        assert torch.equal(result, expected)


def test_a_string_argument_is_not_leaked(volta):
    """The stable ABI's own conversion would keep 2 GB of these."""
    arguments = (half(2, 1, 8), half(2, 1, 8), cache(1, 4, 1, 8), cache(1, 4, 1, 8), SLOTS)
    name = "x" * 2**20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2000):
        with pytest.raises(RuntimeError):
            volta.reshape_and_cache_flash(*arguments, name, ONE, ONE)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200 * 1024, f"{grown} KiB"


def test_the_schemas_are_upstreams(volta):
    """Argument by argument, as vLLM 0.32.0 registers them."""
    for name, arguments in UPSTREAM.items():
        schema = str(getattr(volta, name).default._schema)
        assert schema == f"volta::{name}{arguments}"
