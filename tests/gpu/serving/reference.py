"""Greedy choices held against transformers in float32, each given the tokens that were served before it."""

from functools import cache

import torch

from tests.gpu.serving.models import auto_class, configuration


@cache
def model(folder, family):
    """The family's model in float32 on the GPU."""
    return auto_class(configuration(family)).from_pretrained(folder, dtype=torch.float32).cuda().eval()


def shortfalls(folder, family, prompt, tokens):
    """For each token: how many nats less likely than the reference's best it is (0 where it is the best)."""
    with torch.no_grad():
        logits = model(folder, family)(torch.tensor([prompt + tokens]).cuda()).logits[0, len(prompt) - 1 : -1]
    logs = logits.float().log_softmax(-1)
    taken = logs.gather(1, torch.tensor(tokens).cuda()[:, None])[:, 0]
    return (logs.max(-1).values - taken).tolist()
