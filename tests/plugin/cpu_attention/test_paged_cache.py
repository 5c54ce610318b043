"""Slots, block tables, and that nothing outside them is touched or read."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from toolkit.plugin.cpu_attention import cache  # noqa: E402

BLOCKS, HEADS, TOKENS, SIZE = 7, 2, 16, 8
POISON = 0x7F


def poisoned():
    return torch.full((BLOCKS, HEADS, TOKENS, 2 * SIZE), POISON, dtype=torch.uint8)


def codes(tokens):
    return torch.randint(0, 0x70, (2, tokens, HEADS, SIZE), dtype=torch.uint8)


def slots_of(table, tokens):
    positions = torch.arange(tokens)
    return table.long()[positions // TOKENS] * TOKENS + positions % TOKENS


def test_every_range_of_a_sequence_comes_back():
    pages, table = cache.pages_of(poisoned()), torch.tensor([5, 0, 3], dtype=torch.int32)
    keys, values = codes(40)
    cache.write(pages, keys, values, slots_of(table, 40))
    stored = torch.stack((keys, values)).transpose(1, 2)
    for first in range(41):
        for last in range(first, 41):
            assert torch.equal(cache.gather(pages, table, first, last), stored[:, :, first:last])


def test_writing_touches_its_slots_alone():
    kv_cache = poisoned()
    pages = cache.pages_of(kv_cache)
    keys, values = codes(3)
    cache.write(pages, keys, values, torch.tensor([2 * TOKENS + 1, -1, 6 * TOKENS + 15]))
    assert torch.equal(pages[2, :, cache.KEYS, 1], keys[0])
    assert torch.equal(pages[6, :, cache.VALUES, 15], values[2])
    assert (kv_cache != POISON).sum() == 2 * 2 * HEADS * SIZE


@pytest.mark.parametrize("slots", [[], [-1, -1, -1], [3]])
def test_padding_and_short_slot_lists(slots):
    kv_cache = poisoned()
    keys, values = codes(3)
    cache.write(cache.pages_of(kv_cache), keys, values, torch.tensor(slots, dtype=torch.int64))
    assert (kv_cache != POISON).sum() == (2 * HEADS * SIZE if 3 in slots else 0)


def test_table_entries_outside_the_range_are_not_followed():
    pages, table = cache.pages_of(poisoned()), torch.tensor([10**6, 4, 10**6], dtype=torch.int32)
    assert cache.gather(pages, table, TOKENS, 2 * TOKENS).shape == (2, HEADS, TOKENS, SIZE)


def test_pages_may_be_further_apart_than_they_are_large():
    wide = torch.full((BLOCKS, 2 * HEADS * TOKENS * SIZE + 64), POISON, dtype=torch.uint8)
    kv_cache = wide[:, : 2 * HEADS * TOKENS * SIZE].view(BLOCKS, HEADS, TOKENS, 2 * SIZE)
    keys, values = codes(TOKENS)
    cache.write(cache.pages_of(kv_cache), keys, values, 3 * TOKENS + torch.arange(TOKENS))
    got = cache.gather(cache.pages_of(kv_cache), torch.tensor([3], dtype=torch.int32), 0, TOKENS)
    assert torch.equal(got, torch.stack((keys, values)).transpose(1, 2))
    assert (wide[:, -64:] == POISON).all()
