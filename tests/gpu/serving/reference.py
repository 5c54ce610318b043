"""Greedy choices held against transformers in float32, each given the tokens that were served before it."""

import torch
from transformers import AttentionInterface

from tests.gpu.serving.adapter import merge
from tests.gpu.serving.models import auto_class, configuration

ROWS = 1024
"""Queries at a time: of 100,000 tokens in float32, all scores at once would not fit into any GPU."""


def causal_by_rows(_module, query, key, value, attention_mask, *, scaling, **_):
    """transformers' attention interface: query [batch, heads, tokens, dim] to output [batch, tokens, heads, dim]."""
    assert attention_mask is None, "one prompt without padding needs no mask but the causal one"
    groups, count = query.shape[1] // key.shape[1], query.shape[2]
    key, value = (part.repeat_interleave(groups, 1) for part in (key, value))
    output = torch.empty_like(query)
    for start in range(0, count, ROWS):
        end = min(start + ROWS, count)
        scores = query[:, :, start:end] @ key[:, :, :end].transpose(-1, -2) * scaling
        hidden = torch.ones(end - start, end, dtype=torch.bool, device=query.device).triu(start + 1)
        output[:, :, start:end] = scores.masked_fill_(hidden, -torch.inf).softmax(-1) @ value[:, :, :end]
    return output.transpose(1, 2), None


AttentionInterface.register("causal_by_rows", causal_by_rows)


class Reference:
    """A family's model in float32 on the GPU; with an adapter's folder, that adapter added to its weights."""

    def __init__(self, folder, family, adapter=None):
        loaded = auto_class(configuration(family)).from_pretrained(
            folder, dtype=torch.float32, attn_implementation="causal_by_rows"
        )
        self._model = loaded.cuda().eval()
        if adapter is not None:
            merge(self._model, adapter)

    @torch.no_grad()
    def shortfalls(self, prompt, tokens):
        """For each token: how many nats less likely than the best it is (0 where it is the best)."""
        asked = torch.tensor([prompt + tokens]).cuda()
        logits = self._model(asked, logits_to_keep=len(tokens) + 1, use_cache=False).logits[0, -len(tokens) - 1 : -1]
        logs = logits.float().log_softmax(-1)
        taken = logs.gather(1, torch.tensor(tokens).cuda()[:, None])[:, 0]
        return (logs.max(-1).values - taken).tolist()
