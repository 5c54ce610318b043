"""Bandwidth of the native operators on a GPU beside torch's eager and compiled versions, as a share of a plain copy.

usage: python3 benchmarks/native_operators.py [--json FILE] [--no-compile] [--only TEXT]

It needs torch and build/native/volta_native.so of this checkout, and nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor
from torch.nn import functional

from toolkit.native import load

HALF = torch.float16


@dataclass(frozen=True)
class Work:
    """One operator at one size: bytes that must move, our call, and the same work in torch."""

    name: str
    moved: int
    ours: Callable[[], object]
    eager: Callable[[], object]


@dataclass(frozen=True)
class Row:
    """Result: GB/s of each version, ours as a share of the copy, and the time of ours."""

    name: str
    ours: float
    eager: float
    compiled: float | None
    share_of_copy: float
    microseconds: float


def seconds(call: Callable[[], object]) -> float:
    """Median GPU time of a call, replayed from a graph of ten so that launch overhead does not count."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            call()
    times = []
    for _ in range(15):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) / 1e4)
    return sorted(times)[len(times) // 2]


def copy_bandwidth(size: int = 2**31) -> float:
    """GB/s of a copy, bytes read and written: the better of the driver's copy and torch's copy kernel."""
    source = torch.empty(size // 4, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    copies = (lambda: target.copy_(source), lambda: torch.add(source, 0.0, out=target))
    return max(2 * size / seconds(copy) for copy in copies) / 1e9


def _eager_norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * weight.float()).half()


def _eager_add_norm(x: Tensor, residual: Tensor, weight: Tensor) -> Tensor:
    residual.add_(x)
    return _eager_norm(residual, weight)


def _eager_clamped(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, dim=-1)
    return functional.silu(gate.clamp(max=7.0)) * up.clamp(-7.0, 7.0)


def _eager_swigluoai(x: Tensor) -> Tensor:
    gate, up = x[..., ::2].clamp(max=7.0), x[..., 1::2].clamp(-7.0, 7.0)
    return (up + 1) * gate * torch.sigmoid(1.702 * gate)


def _eager_write(x: Tensor, cache: Tensor, slots: Tensor, scale: Tensor) -> None:
    cache.view(torch.uint8)[slots] = (x / scale).to(torch.float8_e4m3fn).view(torch.uint8)


def _eager_merge(parts: Tensor, lse: Tensor) -> Tensor:
    weights = torch.softmax(lse * 0.6931471805599453, dim=0)
    return (weights.unsqueeze(-1) * parts.float()).sum(0).half()


def _eager_gemma_norm(x: Tensor, residual: Tensor, weight: Tensor) -> Tensor:
    wide = x.float() + residual.float()
    residual.copy_(wide)
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * (1.0 + weight.float())).half()


def gemma_work(rows: int, columns: int) -> Work:
    """gemma_rms_norm with an fp32 residual, which is read and written."""
    x, out = torch.randn(rows, columns, device="cuda").half(), torch.empty(rows, columns, dtype=HALF, device="cuda")
    residual, weight = torch.randn(rows, columns, device="cuda"), torch.randn(columns, device="cuda").half()
    return Work(
        f"gemma_rms_norm {rows}x{columns}",
        2 * x.nbytes + 2 * residual.nbytes,
        lambda: torch.ops.volta.gemma_rms_norm(out, x, residual, weight, 1e-6),
        lambda: _eager_gemma_norm(x, residual, weight),
    )


def norm_work(rows: int, columns: int) -> list[Work]:
    """rms_norm and fused_add_rms_norm."""
    x, out = torch.randn(rows, columns, device="cuda").half(), torch.empty(rows, columns, dtype=HALF, device="cuda")
    residual, weight = torch.randn_like(x), torch.randn(columns, device="cuda").half()
    size = x.nbytes
    ops = torch.ops.volta
    return [
        Work(
            f"rms_norm {rows}x{columns}",
            2 * size,
            lambda: ops.rms_norm(out, x, weight, 1e-6),
            lambda: _eager_norm(x, weight),
        ),
        Work(
            f"fused_add_rms_norm {rows}x{columns}",
            4 * size,
            lambda: ops.fused_add_rms_norm(x, residual, weight, 1e-6),
            lambda: _eager_add_norm(x, residual, weight),
        ),
    ]


def activation_work(rows: int, columns: int) -> Iterator[Work]:
    """Gated activations: halves side by side in both orders, clamped ones, and pairs of neighbours."""
    x = torch.randn(rows, 2 * columns, device="cuda").half()
    out = torch.empty(rows, columns, dtype=HALF, device="cuda")
    left, right = x.chunk(2, dim=-1)
    ops = torch.ops.volta
    versions: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "silu_and_mul": (lambda: ops.silu_and_mul(out, x), lambda: functional.silu(left) * right),
        "mul_and_silu": (lambda: ops.mul_and_silu(out, x), lambda: left * functional.silu(right)),
        "fatrelu_and_mul": (
            lambda: ops.fatrelu_and_mul(out, x, 0.5),
            lambda: functional.threshold(left, 0.5, 0.0) * right,
        ),
        "silu_and_mul_with_clamp": (
            lambda: ops.silu_and_mul_with_clamp(out, x, 7.0),
            lambda: _eager_clamped(x),
        ),
        "swigluoai_and_mul": (lambda: ops.swigluoai_and_mul(out, x), lambda: _eager_swigluoai(x)),
    }
    for name, (ours, eager) in versions.items():
        yield Work(f"{name} {rows}x{columns}", 3 * out.nbytes, ours, eager)


def cache_work(tokens: int, heads: int, width: int) -> list[Work]:
    """The cache operators: a page that holds keys and values in E4M3, both apart in E4M3, and both apart in float16.

    Eager does the writes for keys and values, too, into a cache without pages.
    """
    key, value = (torch.randn(tokens, heads, width, device="cuda").half() for _ in range(2))
    blocks = tokens // 16
    pages = torch.zeros(blocks, 16, heads, 2 * width, dtype=torch.uint8, device="cuda").view(torch.float8_e4m3fn)
    caches = pages[..., :width], pages[..., width:]
    flat = [torch.zeros(tokens, heads, width, dtype=torch.uint8, device="cuda") for _ in range(2)]
    paged = [x.view(blocks, 16, heads, width) for x in flat]
    halves = [torch.zeros(blocks, 16, heads, width, dtype=HALF, device="cuda") for _ in range(2)]
    slots, scale = torch.randperm(tokens, device="cuda"), torch.tensor([0.03], device="cuda")
    table = torch.randperm(blocks, device="cuda").int().view(8, -1)
    starts = torch.arange(0, tokens + 1, tokens // 8, device="cuda", dtype=torch.int32)
    ops, moved = torch.ops.volta, 2 * (key.nbytes + key.numel())

    def write() -> None:
        for x, cache in zip((key, value), flat, strict=True):
            _eager_write(x, cache, slots, scale)

    def copy() -> None:
        for x, cache in zip((key, value), halves, strict=True):
            cache.view(x.shape)[slots] = x

    def gather() -> tuple[Tensor, ...]:
        order = table.flatten().long()
        return tuple((pages[order][..., part].to(HALF) * scale).half() for part in (slice(width), slice(width, None)))

    label = f"{tokens}x{heads}x{width}"
    return [
        Work(
            f"kv_cache_write e4m3 {label}",
            moved,
            lambda: ops.kv_cache_write(key, value, *caches, slots, scale, scale),
            write,
        ),
        Work(
            f"reshape_and_cache_flash e4m3 {label}",
            moved,
            lambda: ops.reshape_and_cache_flash(key, value, *paged, slots, "fp8_e4m3", scale, scale),
            write,
        ),
        Work(
            f"reshape_and_cache_flash f16 {label}",
            4 * key.nbytes,
            lambda: ops.reshape_and_cache_flash(key, value, *halves, slots, "auto", scale, scale),
            copy,
        ),
        Work(
            f"kv_cache_gather e4m3 {label}",
            moved,
            lambda: ops.kv_cache_gather(*caches, table, starts, None, key, value, scale, scale),
            gather,
        ),
    ]


def rotary_work(tokens: int, heads: int, width: int) -> Work:
    """rotary_embedding of whole heads; eager has the cosines gathered already."""
    query = torch.randn(tokens, heads, width, device="cuda").half()
    cache = torch.randn(4096, width, device="cuda").half()
    positions = torch.randint(0, 4096, (tokens,), device="cuda")
    cosine, sine = cache[positions].unsqueeze(1).chunk(2, dim=-1)

    def eager() -> Tensor:
        x, y = query.chunk(2, dim=-1)
        return torch.cat((x * cosine - y * sine, y * cosine + x * sine), dim=-1)

    return Work(
        f"rotary_embedding {tokens}x{heads}x{width}",
        2 * query.nbytes + tokens * width * 2,
        lambda: torch.ops.volta.rotary_embedding(positions, query, None, width, cache, True),
        eager,
    )


def merge_work(tokens: int, heads: int, width: int) -> list[Work]:
    """merge_attention and merge_attn_states of two parts."""
    parts = torch.randn(2, tokens, heads, width, device="cuda").half()
    lse = torch.randn(2, tokens, heads, device="cuda")
    out = torch.empty(tokens, heads, width, dtype=HALF, device="cuda")
    moved, ops, label = parts.nbytes + out.nbytes + lse.nbytes, torch.ops.volta, f"{tokens}x{heads}x{width}"
    return [
        Work(
            f"merge_attention 2x{label}",
            moved,
            lambda: ops.merge_attention(out, None, parts, lse, True),
            lambda: _eager_merge(parts, lse),
        ),
        Work(
            f"merge_attn_states {label}",
            moved,
            lambda: ops.merge_attn_states(out, None, parts[0], lse[0].T, parts[1], lse[1].T, None),
            lambda: _eager_merge(parts, lse),
        ),
    ]


def dcp_work(tokens: int, requests: int) -> Work:
    """dcp_slot_mapping for two ranks; eager knows each token's request already."""
    slots, positions = torch.empty(tokens, dtype=torch.int64, device="cuda"), torch.arange(tokens, device="cuda")
    starts = torch.linspace(0, tokens, requests + 1, device="cuda").int()
    table = torch.arange(requests * (tokens // 32 + 1), device="cuda", dtype=torch.int32).view(requests, -1)
    request = torch.searchsorted(starts[1:].contiguous(), positions, right=True)

    def eager() -> Tensor:
        local = positions // 2
        found = table[request, local // 16].long() * 16 + local % 16
        return torch.where(positions % 2 == 0, found, -1)

    return Work(
        f"dcp_slot_mapping {tokens} of {requests}",
        2 * slots.nbytes + slots.nbytes // 4,
        lambda: torch.ops.volta.dcp_slot_mapping(slots, positions, starts, table, 16, 2, 0, 1),
        eager,
    )


def routing_work(rows: int, experts: int, k: int) -> list[Work]:
    """topk_softmax and moe_align_block_size: small tensors, so the time counts; bytes are those of the logits."""
    logits = torch.randn(rows, experts, device="cuda").half()
    weights = torch.empty(rows, k, device="cuda")
    ids, source = logits.topk(k).indices.int(), torch.empty(rows, k, dtype=torch.int32, device="cuda")
    places = rows * k + experts * 63
    order, blocks, total = (torch.empty(n, dtype=torch.int32, device="cuda") for n in (places, places // 64 + 1, 1))
    ops = torch.ops.volta

    def align() -> tuple[Tensor, Tensor]:
        flat = ids.flatten()
        return torch.sort(flat, stable=True)[1], torch.zeros(experts, dtype=torch.int32, device="cuda").scatter_add_(
            0, flat.long(), torch.ones_like(flat)
        )

    return [
        Work(
            f"topk_softmax {rows}x{experts} k {k}",
            logits.nbytes,
            lambda: ops.topk_softmax(weights, ids, source, logits, True, None, None),
            lambda: torch.softmax(logits.float(), dim=-1).topk(k),
        ),
        Work(
            f"moe_align_block_size {rows}x{k} of {experts}",
            ids.nbytes + order.nbytes,
            lambda: ops.moe_align_block_size(ids, experts, 64, order, blocks, total, None),
            align,
        ),
    ]


def grouped_work(rows: int) -> Work:
    """grouped_topk as in DeepSeek-V3; eager takes no bias, which spares it work."""
    logits, bias = torch.randn(rows, 256, device="cuda"), torch.zeros(256, device="cuda")

    def eager() -> Tensor:
        scores = torch.sigmoid(logits)
        groups = scores.view(rows, 8, 32).topk(2).values.sum(-1).topk(4).indices
        mask = torch.zeros(rows, 8, dtype=torch.bool, device="cuda").scatter_(1, groups, value=True)
        return scores.masked_fill(~mask.repeat_interleave(32, 1), 0.0).topk(8).values

    return Work(
        f"grouped_topk {rows}x256 k 8",
        logits.nbytes,
        lambda: torch.ops.volta.grouped_topk(logits, 8, 4, 8, True, 2.5, bias, 1),
        eager,
    )


def penalty_work(rows: int, words: int) -> Work:
    """apply_repetition_penalties_, one word in 64 seen before."""
    logits = torch.randn(rows, words, device="cuda")
    masks = [torch.rand(rows, words, device="cuda") < 1 / 128 for _ in range(2)]
    penalties = torch.full((rows,), 1.1, device="cuda")

    def eager() -> Tensor:
        factors = torch.where(masks[0] | masks[1], penalties.unsqueeze(1), 1.0)
        return torch.where(logits > 0, logits / factors, logits * factors)

    return Work(
        f"apply_repetition_penalties_ {rows}x{words}",
        2 * masks[0].nbytes + logits.nbytes // 8,
        lambda: torch.ops.volta.apply_repetition_penalties_(logits, *masks, penalties),
        eager,
    )


def expert_sum_work(tokens: int, k: int, columns: int) -> Work:
    """moe_sum."""
    x = torch.randn(tokens, k, columns, device="cuda").half()
    out = torch.empty(tokens, columns, dtype=HALF, device="cuda")
    return Work(
        f"moe_sum {tokens}x{k}x{columns}",
        x.nbytes + out.nbytes,
        lambda: torch.ops.volta.moe_sum(x, out),
        lambda: torch.sum(x, dim=1, out=out),
    )


def embedding_work(tokens: int, rows: int, columns: int) -> Work:
    """vocab_parallel_embedding of one rank of two; eager makes the mask, too."""
    table = torch.randn(rows, columns, device="cuda").half()
    ids, out = (
        torch.randint(0, 2 * rows, (tokens,), device="cuda"),
        torch.empty(tokens, columns, dtype=HALF, device="cuda"),
    )

    def eager() -> Tensor:
        mask = ids < rows
        return functional.embedding(ids * mask, table).masked_fill_(~mask.unsqueeze(-1), 0)

    return Work(
        f"vocab_parallel_embedding {tokens}x{columns}",
        out.nbytes + out.nbytes // 2,
        lambda: torch.ops.volta.vocab_parallel_embedding(out, ids, table, 0, rows, 0, 2 * rows, 2 * rows),
        eager,
    )


def sampling_work(requests: int, drafts: int, vocabulary: int) -> Work:
    """topk_topp_support and compact_rejection; eager sorts, and judges the drafts densely. Bytes: the logits, once."""
    rows = requests * (drafts + 1)
    logits = torch.randn(rows, vocabulary, device="cuda") * 4
    temperature, top_p = torch.full((requests,), 0.7, device="cuda"), torch.full((requests,), 0.95, device="cuda")
    top_k = torch.full((requests,), 20, dtype=torch.int32, device="cuda")
    owner = torch.arange(requests, dtype=torch.int32, device="cuda").repeat_interleave(drafts + 1)
    proposed = logits.view(requests, drafts + 1, -1)[:, :drafts].argmax(-1)
    accept, sample = torch.rand(requests, drafts, device="cuda"), torch.rand(requests, device="cuda")
    tokens = torch.empty(rows, 64, dtype=torch.int32, device="cuda")
    shares, counts = torch.empty(rows, 64, device="cuda"), torch.empty(rows, dtype=torch.int32, device="cuda")
    sampled = torch.empty(requests, drafts + 1, dtype=torch.int64, device="cuda")
    number, ops = torch.empty(requests, dtype=torch.int32, device="cuda"), torch.ops.volta

    def ours() -> None:
        ops.topk_topp_support(tokens, shares, counts, logits, temperature, top_k, top_p, owner)
        ops.compact_rejection(sampled, number, proposed, tokens, shares, counts, accept, sample)

    def eager() -> Tensor:
        ordered, ids = (logits / 0.7).sort(dim=-1)
        ordered[:, :-20] = float("-inf")
        ordered[:, :-1].masked_fill_(ordered.softmax(-1).cumsum(-1)[:, :-1] <= 0.05, float("-inf"))
        target = torch.empty_like(logits).scatter_(1, ids, ordered).softmax(-1).view(requests, drafts + 1, -1)
        passed = (target[:, :drafts].gather(2, proposed.unsqueeze(-1)).squeeze(-1) > accept).cumprod(1).sum(1)
        row = target[torch.arange(requests, device="cuda"), passed]
        return (row.cumsum(-1) <= sample.unsqueeze(1)).sum(-1)

    return Work(f"compact sampling {requests}x{drafts + 1}x{vocabulary}", logits.nbytes, ours, eager)


def works() -> Iterator[Work]:
    """Large sizes (hundreds of MB), where memory decides, and routing at the sizes of decoding and prefill.

    Each is made when its turn comes, so that one at a time takes memory.
    """
    yield from norm_work(32768, 5120)
    yield norm_work(262144, 128)[0]
    yield gemma_work(16384, 8192)
    yield from activation_work(16384, 8704)
    yield from cache_work(262144, 4, 256)
    yield rotary_work(65536, 24, 128)
    yield from merge_work(65536, 12, 256)
    yield dcp_work(8192, 128)
    for rows, experts, k in ((64, 128, 8), (8192, 128, 8), (8192, 512, 10)):
        yield from routing_work(rows, experts, k)
    yield grouped_work(8192)
    yield penalty_work(256, 151936)
    yield expert_sum_work(16384, 8, 2048)
    yield embedding_work(65536, 76000, 5120)
    yield sampling_work(8, 7, 248320)


def compiled_rate(work: Work) -> float | None:
    """Bandwidth of torch's compiled version; None, with a line that says so, where torch cannot compile it."""
    try:
        return work.moved / seconds(torch.compile(work.eager)) / 1e9
    except Exception as error:  # noqa: BLE001 - whatever inductor stumbles over, ours is still to be measured
        print(f"{work.name}: torch.compile fails: {str(error).splitlines()[0][:100]}")
        return None


def measure(work: Work, copy: float, *, with_compile: bool) -> Row:
    """Time the three versions of one work."""
    time = seconds(work.ours)
    ours, eager = work.moved / time / 1e9, work.moved / seconds(work.eager) / 1e9
    compiled = compiled_rate(work) if with_compile else None
    return Row(work.name, ours, eager, compiled, ours / copy, time * 1e6)


def main() -> int:
    """Print a table, and write JSON where asked, anew with each row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--only", default="", help="text in the names of the rows")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("error: torch sees no NVIDIA GPU here", file=sys.stderr)
        return 5
    library, copy, rows = load(), copy_bandwidth(), list[Row]()
    record = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "copy": copy}
    record["library_sha256"] = hashlib.sha256(library.read_bytes()).hexdigest()
    print(f"{record['gpu']}, torch {torch.__version__}: copy {copy:.0f} GB/s", flush=True)
    for work in (each for each in works() if args.only in each.name):
        row = measure(work, copy, with_compile=not args.no_compile)
        rows.append(row)
        compiled = "-" if row.compiled is None else f"{row.compiled:.0f}"
        print(
            f"{row.name:40} ours {row.ours:6.0f} GB/s ({row.share_of_copy:4.0%} of copy, {row.microseconds:7.1f} us)  "
            f"eager {row.eager:6.0f}  compiled {compiled:>6}",
            flush=True,
        )
        if args.json:
            args.json.write_text(json.dumps(record | {"rows": [asdict(each) for each in rows]}, indent=1) + "\n")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
