"""A step of several requests over one poisoned cache."""

from __future__ import annotations

import fp8_reference
import pytest

torch = pytest.importorskip("torch")

from attention_reference import Case, assert_close  # noqa: E402

from toolkit.plugin.cpu_attention.attend import Rules  # noqa: E402
from toolkit.plugin.cpu_attention.fp8 import E4M3, E5M2  # noqa: E402
from toolkit.plugin.cpu_attention.paged import PagedAttention, Request, Scales  # noqa: E402

HEADS, KV_HEADS, SIZE, TOKENS = 6, 2, 32, 16
ONE, PLAIN = Scales(), Rules()
TABLES = {E4M3: fp8_reference.E4M3.table(), E5M2: fp8_reference.E5M2.table()}


class Step:
    """Sequences of (new tokens, context) with blocks dealt out at random; every byte that is not theirs is a NaN."""

    def __init__(self, lengths, *, form=E4M3, scales=ONE, dtype=torch.float32, rules=PLAIN):
        self.generator = torch.Generator().manual_seed(0)
        self.form, self.scales, self.rules, self.lengths = form, scales, rules, lengths
        self.attention = PagedAttention(form, SIZE**-0.5, rules)
        blocks = [-(-context // TOKENS) for _, context in lengths]
        order = torch.randperm(sum(blocks) + 3, generator=self.generator)
        self.kv_cache = torch.full((len(order), KV_HEADS, TOKENS, 2 * SIZE), 0x7F, dtype=torch.uint8)
        self.query = torch.randn(sum(new for new, _ in lengths), HEADS, SIZE, generator=self.generator).to(dtype)
        self.stored, requests, row, block = [], [], 0, 0
        for (new, context), count in zip(lengths, blocks, strict=True):
            table = torch.full((max(blocks) + 2,), int(order[-1]), dtype=torch.int32)
            table[:count] = order[block : block + count]
            self._write(table, context, dtype)
            requests.append(Request(row, row + new, context, table))
            row, block = row + new, block + count
        self.requests = tuple(requests)

    def _write(self, table, context, dtype):
        keys, values = (torch.randn(2, context, KV_HEADS, SIZE, generator=self.generator) * 3).to(dtype)
        positions = torch.arange(context)
        slots = table.long()[positions // TOKENS] * TOKENS + positions % TOKENS
        self.attention.write(self.kv_cache, keys, values, slots, self.scales)
        self.stored.append((self._exact(keys, self.scales.key), self._exact(values, self.scales.value)))

    def _exact(self, values, scale):
        return torch.from_numpy(TABLES[self.form])[self.form.encode(values, scale).long()] * scale

    def run(self, padding=0):
        tokens = len(self.query) + padding
        query = torch.full((tokens, HEADS, SIZE), torch.nan, dtype=self.query.dtype)
        query[: len(self.query)] = self.query
        output = torch.full_like(query, torch.nan)
        self.attention.read(self.kv_cache, query, self.requests, self.scales, output)
        return output

    def check(self, output):
        for request, (keys, values) in zip(self.requests, self.stored, strict=True):
            case = Case(
                self.query[request.begin : request.end],
                keys,
                values,
                SIZE**-0.5,
                causal=request.causal,
                window=self.rules.window,
            )
            assert_close(output[request.begin : request.end], case)


MIXED = [(1, 1), (1, 16), (1, 17), (5, 5), (16, 16), (17, 40), (1, 300), (64, 64)]


@pytest.mark.parametrize("form", [E4M3, E5M2], ids=["e4m3", "e5m2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scales", [Scales(), Scales(0.031, 0.25), Scales(1.7, 3.0)], ids=["one", "small", "large"])
def test_mixed_batch(form, dtype, scales):
    step = Step(MIXED, form=form, scales=scales, dtype=dtype)
    step.check(step.run())


@pytest.mark.parametrize("lengths", [[(1, 1)], [(1, 2048)], [(700, 2000), (1, 5)], [(1, n) for n in range(1, 50)]])
def test_shapes(lengths):
    step = Step(lengths)
    step.check(step.run())


def test_window_reads_only_its_blocks():
    step = Step([(1, 100), (20, 90)], rules=Rules(window=10))
    for request in step.requests:
        first = (request.context - (request.end - request.begin) - 9) // TOKENS
        request.blocks[:first] = 10**6  # blocks that vLLM has taken back
    step.check(step.run())


def test_padding_rows_become_zero():
    step = Step(MIXED)
    output = step.run(padding=7)
    step.check(output)
    assert not output[-7:].any()


def test_a_step_without_requests():
    step = Step([])
    assert not step.run(padding=3).any()


def test_a_poisoned_token_of_a_sequence_shows():
    """The poison of the other tests would be seen: a NaN inside a sequence reaches its output, and no other's."""
    step = Step([(1, 20), (1, 20)])
    key = torch.full((1, KV_HEADS, SIZE), torch.nan)
    slot = step.requests[0].blocks[:1].long() * TOKENS + 3
    step.attention.write(step.kv_cache, key, key, slot, step.scales)
    output = step.run()
    assert output[0].isnan().all()
    assert not output[1].isnan().any()


def test_large_values_saturate_and_stay_finite():
    step = Step([(1, 8)])
    huge = torch.full((8, KV_HEADS, SIZE), 1e9)
    slots = step.requests[0].blocks[0].long() * TOKENS + torch.arange(8)
    step.attention.write(step.kv_cache, huge, huge, slots, step.scales)
    assert torch.allclose(step.run(), torch.tensor(448.0))
