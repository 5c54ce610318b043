"""Attention of a step's requests over a layer's paged FP8 cache."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from toolkit.plugin.cpu_attention import cache
from toolkit.plugin.cpu_attention.attend import Rules, Span, attend, visible
from toolkit.plugin.cpu_attention.fp8 import Fp8Format


@dataclass(frozen=True)
class Request:
    """One sequence of a step."""

    begin: int
    """Its new tokens are rows begin..end-1 of the batch."""
    end: int
    context: int
    """Its length, new tokens included; for cross attention the encoder's length."""
    blocks: Tensor
    """Its row of the block table."""
    causal: bool = True


@dataclass(frozen=True)
class Scales:
    """What a stored key and a stored value are multiplied by."""

    key: float = 1.0
    value: float = 1.0


@dataclass(frozen=True)
class PagedAttention:
    """One layer's attention. A cache is uint8 [blocks, kv_heads, block_tokens, 2 * head_size]."""

    format: Fp8Format
    softmax_scale: float
    rules: Rules

    def write(self, kv_cache: Tensor, key: Tensor, value: Tensor, slots: Tensor, scales: Scales) -> None:
        """Store keys and values [tokens, kv_heads, head_size] at their slots; slot -1 is padding."""
        keys, values = self.format.encode(key, scales.key), self.format.encode(value, scales.value)
        cache.write(cache.pages_of(kv_cache), keys, values, slots)

    def read(
        self, kv_cache: Tensor, query: Tensor, requests: Iterable[Request], scales: Scales, output: Tensor
    ) -> None:
        """Attend for query [tokens, heads, head_size] into `output` of that shape; rows of no request become zero.

        The scales cost nothing an element: that of the keys goes into the queries, that of the values into the output.
        """
        pages = cache.pages_of(kv_cache)
        scaled = query.to(torch.float32) * (self.softmax_scale * scales.key * self.format.gain)
        done = 0
        for request in requests:
            output[done : request.begin].zero_()
            attended = self._attend(pages, scaled[request.begin : request.end], request)
            output[request.begin : request.end] = attended.mul_(scales.value * self.format.gain)
            done = request.end
        output[done:].zero_()

    def _attend(self, pages: Tensor, query: Tensor, request: Request) -> Tensor:
        queries = Span(request.context - len(query), request.context)
        span = visible(self.rules.window, request.causal, request.context, queries)
        keys, values = self.format.decode(cache.gather(pages, request.blocks, span.first, span.last))
        return attend(query, keys, values, self.rules, causal=request.causal, context=request.context)
