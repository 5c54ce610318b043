"""Counting what enters a KV cache, against plain sorting and counting of the same numbers."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from toolkit.planning.kv_measurement import CONTROL_FILE, NOT_FINITE, lower_edge, measurement_from  # noqa: E402
from toolkit.plugin.measure import Counter, Measuring  # noqa: E402

CPU = torch.device("cpu")


def numbers(dtype, count=20000):
    """Magnitudes over the whole range of a type, of both signs, zeros among them."""
    generator = torch.Generator().manual_seed(3)
    exponents = torch.rand(count, generator=generator) * 30 - 18
    values = torch.exp2(exponents) * torch.randn(count, generator=generator).sign()
    values[::97] = 0.0
    return values.to(dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_element_is_in_the_bin_whose_edges_hold_it(dtype):
    values = numbers(dtype)
    counter = Counter(CPU)
    counter.add(values[:7000].view(-1, 7, 10))
    counter.add(values[7000:])
    tally = counter.tally("layer", "k")
    magnitudes = values.float().abs().sort().values
    assert tally.count == len(values)
    assert tally.largest == float(magnitudes[-1])
    done = 0
    for number, count in sorted(tally.bins.items()):
        inside = magnitudes[done : done + count]
        assert lower_edge(number) <= float(inside[0])
        assert float(inside[-1]) < lower_edge(number + 1)
        done += count


def test_eight_bins_an_octave_with_exact_edges():
    bins = [int(torch.tensor(value).view(torch.int32)) >> 20 for value in (1.0, 1.125, 1.9999, 2.0)]
    assert [number - bins[0] for number in bins] == [0, 1, 7, 8]
    assert [lower_edge(bins[0] + step) for step in (0, 1, 7, 8)] == [1.0, 1.125, 1.875, 2.0]


@pytest.mark.parametrize("odd", [float("nan"), -float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_counted_as_such(odd):
    counter = Counter(CPU)
    counter.add(torch.tensor([1.0, odd, -2.0, 65504.0, 3.4e38]))
    assert counter.tally("layer", "k").not_finite == 1
    assert NOT_FINITE == 2040


def test_nothing_is_counted_of_nothing():
    counter = Counter(CPU)
    counter.add(torch.empty(0, 2, 4))
    assert (counter.tally("layer", "v").count, counter.tally("layer", "v").largest) == (0, 0.0)


class Cache:
    """An attention implementation that remembers what it was told to store."""

    def __init__(self):
        self.stored = []

    def do_kv_cache_update(self, layer, key, value, kv_cache, slot_mapping):
        self.stored.append((layer, key, value, kv_cache, slot_mapping))


@pytest.fixture
def layers():
    owner = SimpleNamespace(impl=Cache(), kv_sharing_target_layer_name=None)
    reader = SimpleNamespace(impl=Cache(), kv_sharing_target_layer_name="model.layers.0.attn")
    return {"model.layers.0.attn": owner, "model.layers.1.attn": reader}


def announce(folder, segment):
    (folder / "new").write_text(json.dumps({"segment": segment}))
    (folder / "new").replace(folder / CONTROL_FILE)


def step(measuring, layer, keys, slots):
    measuring.follow()
    key = torch.tensor(keys).view(-1, 1, 1)
    layer.impl.do_kv_cache_update(layer, key, -2 * key, "cache", torch.tensor(slots))


def written(folder):
    return [measurement_from(json.loads(path.read_text())) for path in sorted(folder.glob("*-rank*.json"))]


def test_a_segment_is_what_runs_between_two_announcements(layers, tmp_path):
    measuring = Measuring(layers, tmp_path, rank=1, world_size=4)
    layer = layers["model.layers.0.attn"]
    step(measuring, layer, [100.0], [0])  # warm-up, and the question that proves that the server answers
    announce(tmp_path, "first")
    step(measuring, layer, [1.0, 2.0], [5, 6])
    step(measuring, layer, [3.0], [7])
    announce(tmp_path, None)
    step(measuring, layer, [50.0], [8])
    assert [found.segment for found in written(tmp_path)] == ["first"]
    announce(tmp_path, "second")
    step(measuring, layer, [4.0], [9])
    announce(tmp_path, None)
    measuring.follow()
    first, second = written(tmp_path)
    assert (first.rank, first.world_size, first.tokens, second.tokens) == (1, 4, 3, 1)
    assert [(tally.kind, tally.largest, tally.count) for tally in first.tallies] == [("k", 3.0, 3), ("v", 6.0, 3)]
    assert [(tally.kind, tally.largest, tally.count) for tally in second.tallies] == [("k", 4.0, 1), ("v", 8.0, 1)]


def test_padding_is_not_measured_and_everything_is_stored(layers, tmp_path):
    measuring = Measuring(layers, tmp_path, rank=0, world_size=1)
    layer = layers["model.layers.0.attn"]
    cache = layer.impl
    announce(tmp_path, "only")
    step(measuring, layer, [1.0, 777.0, 2.0, 888.0], [4, -1, 5])  # a graph's padding: no slot, or slot -1
    announce(tmp_path, None)
    measuring.follow()
    (only,) = written(tmp_path)
    assert (only.tokens, only.tallies[0].largest, only.tallies[0].count) == (2, 2.0, 2)
    ((_, key, _, kv_cache, slots),) = cache.stored
    assert (key.flatten().tolist(), kv_cache, slots.tolist()) == ([1.0, 777.0, 2.0, 888.0], "cache", [4, -1, 5])


def test_a_layer_without_a_cache_of_its_own_is_left_alone(layers, tmp_path):
    before = layers["model.layers.1.attn"].impl.do_kv_cache_update
    Measuring(layers, tmp_path, rank=0, world_size=1)
    assert layers["model.layers.1.attn"].impl.do_kv_cache_update == before


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (SimpleNamespace(impl=object(), kv_sharing_target_layer_name=None), "no cache write of its own"),
        (SimpleNamespace(impl=Cache(), kv_lora_rank=512, kv_sharing_target_layer_name=None), "one latent vector"),
    ],
)
def test_what_cannot_be_measured_is_said_by_name(layer, why, tmp_path):
    with pytest.raises(NotImplementedError, match=rf"model\.layers\.3\.attn cannot be measured: .*{why}"):
        Measuring({"model.layers.3.attn": layer}, tmp_path, rank=0, world_size=1)
