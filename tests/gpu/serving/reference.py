"""Greedy choices held against transformers in float32, each given the tokens that were served before it."""

from contextlib import contextmanager

import torch
from transformers import AttentionInterface, AutoConfig

from tests.gpu.serving.adapter import merge
from tests.gpu.serving.fp8_cache import FORMATS, held
from tests.gpu.serving.models import auto_class

ROWS = 1024
"""Queries at a time: of 100,000 tokens in float32, all scores at once would not fit into any GPU."""
NAME = "causal_by_rows"
FLOAT16 = 2**-11
"""Half a unit in the last place of a float16, relative to its power of two."""


def causal_by_rows(query, key, value, scaling):
    """Causal attention: query [batch, heads, tokens, dim] to output [batch, tokens, heads, dim]."""
    groups, count = query.shape[1] // key.shape[1], query.shape[2]
    key, value = (part.repeat_interleave(groups, 1) for part in (key, value))
    output = torch.empty_like(query)
    for start in range(0, count, ROWS):
        end = min(start + ROWS, count)
        scores = query[:, :, start:end] @ key[:, :, :end].transpose(-1, -2) * scaling
        hidden = torch.ones(end - start, end, dtype=torch.bool, device=query.device).triu(start + 1)
        output[:, :, start:end] = scores.masked_fill_(hidden, -torch.inf).softmax(-1) @ value[:, :, :end]
    return output.transpose(1, 2)


class CachedAttention:
    """transformers' attention interface: over keys and values as a cache of `kv` holds them, perhaps with noise."""

    def __init__(self, kv):
        self._kv, self._draw = kv, None

    def __call__(self, _module, query, key, value, attention_mask, *, scaling, **_):
        assert attention_mask is None, "one prompt without padding needs no mask but the causal one"
        return causal_by_rows(query, self._read(key), self._read(value), scaling), None

    @contextmanager
    def noise(self, seed, device):
        """Meanwhile each key and value is off by up to FLOAT16 of itself before it is rounded for the cache."""
        self._draw = torch.Generator(device).manual_seed(seed)
        try:
            yield
        finally:
            self._draw = None

    def _read(self, part):
        if self._draw is not None:
            drawn = torch.rand(part.shape, generator=self._draw, device=part.device, dtype=part.dtype)
            part = part * (1 + FLOAT16 * (2 * drawn - 1))
        return held(part, self._kv) if self._kv in FORMATS else part


class Reference:
    """A checkpoint's model in float32 with a cache of `kv`; with an adapter's folder, that adapter in its weights."""

    def __init__(self, folder, kv="float16", adapter=None):
        self._attention = CachedAttention(kv)
        AttentionInterface.register(NAME, self._attention)
        loaded = auto_class(AutoConfig.from_pretrained(folder)).from_pretrained(
            folder, dtype=torch.float32, attn_implementation=NAME
        )
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = loaded.to(self._device).eval()
        if adapter is not None:
            merge(self._model, adapter)

    def shortfalls(self, prompt, tokens):
        """For each token: how many nats less likely than the best it is (0 where it is the best)."""
        logs = self._logs(prompt, tokens)
        return below_best(logs, torch.tensor(tokens, device=self._device)).tolist()

    def noise(self, prompt, tokens, seeds):
        """What float16 may cost: for each seed and place, the choice's shortfall, and by how much a margin moves.

        A choice is what this model takes with noise; a margin is that between the two best without.
        """
        logs = self._logs(prompt, tokens)
        two = logs.topk(2).indices
        short, moved = [], []
        for seed in seeds:
            with self._attention.noise(seed, self._device):
                noisy = self._logs(prompt, tokens)
            short += below_best(logs, noisy.argmax(-1)).tolist()
            moved += (noisy - logs).gather(1, two).diff().abs()[:, 0].tolist()
        return short, moved

    @torch.no_grad()
    def _logs(self, prompt, tokens):
        """Log-probabilities [tokens, vocabulary] of what comes at each token's place, given all before it."""
        asked = torch.tensor([prompt + tokens], device=self._device)
        logits = self._model(asked, logits_to_keep=len(tokens) + 1, use_cache=False).logits
        return logits[0, -len(tokens) - 1 : -1].float().log_softmax(-1)


def below_best(logs, choices):
    """How far below the best of each row its choice lies, in nats."""
    return logs.max(-1).values - logs.gather(1, choices[:, None])[:, 0]
