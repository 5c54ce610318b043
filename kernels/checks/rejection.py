# ruff: noqa: S101 - a check is an assertion
"""compact_rejection: the same tokens as the dense form, and the target's distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kernels.checks.compare import generator
from kernels.checks.support import Params, Support, make, params
from kernels.reference import rejection as oracle


@dataclass(frozen=True)
class Verify:
    """A uniform decode batch: requests, drafts of each, vocabulary, and whether the draft model gives probabilities."""

    requests: int
    drafts: int
    vocabulary: int
    draft_model: bool


BATCHES = (
    Verify(1, 7, 500, draft_model=False),
    Verify(8, 7, 3000, draft_model=True),
    Verify(37, 1, 90, draft_model=True),
    Verify(9, 40, 1000, draft_model=False),
    Verify(5, 33, 300, draft_model=True),
    Verify(64, 0, 700, draft_model=False),
)


def reject(
    made: Support, drafts: Tensor, accept: Tensor, sample: Tensor, draft_probabilities: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Call the operator with poisoned results: (sampled, num_sampled)."""
    requests, width = drafts.size(0), drafts.size(1) + 1
    sampled = torch.full((requests, width + 2), 987654, device=drafts.device)[:, 1 : width + 1]
    number = torch.full((requests,), 987654, dtype=torch.int32, device=drafts.device)
    torch.ops.volta.compact_rejection(
        sampled, number, drafts, made.tokens, made.probabilities, made.counts, accept, sample, draft_probabilities
    )
    return sampled, number


def like_dense(device: str, batch: Verify, seed: int) -> None:
    """Mixed parameters, drafts inside and outside the support, placeholders, the ends of the uniforms, broken rows."""
    g = generator(device, seed)
    logits, by, drafts, q = _batch(batch, g)
    made = make(logits, by, 64)
    accept = torch.rand(batch.requests, batch.drafts, generator=g, device=g.device)
    sample = torch.rand(batch.requests, generator=g, device=g.device)
    accept[torch.rand(accept.shape, generator=g, device=g.device) < 0.4] = 0.0  # long runs of accepted drafts
    sample[::5], sample[1::5] = 0.0, 1 - 2.0**-24
    sampled, number = reject(made, drafts, accept, sample, q)
    target = torch.zeros(logits.shape)
    for row in range(logits.size(0)):
        count = max(int(made.counts[row]), 0)
        target[row, made.tokens[row, :count].long().cpu()] = made.probabilities[row, :count].cpu()
    lengths = set()
    for request in range(batch.requests):
        first = request * (batch.drafts + 1)
        wanted = oracle.dense(
            drafts[request].tolist(),
            target[first : first + batch.drafts + 1],
            None if q is None else q[request].cpu(),
            accept[request].tolist(),
            sample[request].item(),
        )
        assert int(number[request]) == len(wanted), f"{batch}: request {request} gets {wanted}"
        padding = [-1] * (batch.drafts + 1 - len(wanted))
        assert sampled[request].tolist() == wanted + padding, f"{batch}: request {request}"
        lengths.add(len(wanted))
    assert batch.drafts == 0 or batch.requests < 5 or len(lengths) > 1, "some drafts pass, some do not"


def _batch(batch: Verify, g: torch.Generator) -> tuple[Tensor, Params, Tensor, Tensor | None]:
    """Logits, parameters, drafts, and the draft model's probabilities, which are close to the target's."""
    rows = batch.requests * (batch.drafts + 1)
    logits = torch.randn(rows, batch.vocabulary, generator=g, device=g.device) * 4
    by = params(batch.requests, str(g.device))
    request_of_row = torch.arange(batch.requests, device=g.device, dtype=torch.int32)
    by = replace(by, request_of_row=request_of_row.repeat_interleave(batch.drafts + 1))
    judged = logits.unflatten(0, (batch.requests, batch.drafts + 1))[:, : batch.drafts]
    q = torch.softmax(judged + torch.randn(judged.shape, generator=g, device=g.device), -1)
    drafts = q.argmax(-1)
    if rows > 5:
        logits[rows // 2] = float("nan")
    if batch.drafts:
        drafts[::4, -1] = -1
        drafts[1::4, -1] = batch.vocabulary - 1
    if batch.draft_model:
        q[::4, 0, : batch.vocabulary // 2] = float("nan")
        q = q[..., :-1]  # a draft model with a smaller vocabulary
    return logits, by, drafts, q if batch.draft_model else None


def true_distribution(device: str, *, draft_model: bool) -> None:
    """Averaged over drafts and a grid of uniforms, the first token follows the target: sampling is not biased."""
    steps, vocabulary = 64, 6
    target = torch.tensor([0.4, 0.0, 0.25, 0.2, 0.1, 0.05], device=device)
    proposed = torch.tensor([0.2, 0.3, 0.1, 0.35, 0.0, 0.05], device=device)
    x, u, v = (
        part.flatten().to(device)
        for part in torch.meshgrid(*(torch.arange(n) for n in (vocabulary, steps, steps)), indexing="ij")
    )
    requests = x.numel()
    everything = torch.arange(vocabulary, dtype=torch.int32, device=device).repeat(2 * requests, 1)
    counts = torch.full((2 * requests,), vocabulary, dtype=torch.int32, device=device)
    made = Support(everything, target.repeat(2 * requests, 1), counts)
    q = proposed.expand(requests, 1, vocabulary).contiguous() if draft_model else None
    uniforms = ((u + 0.5) / steps).float(), ((v + 0.5) / steps).float()
    sampled, number = reject(made, x.unsqueeze(1), uniforms[0].unsqueeze(1), uniforms[1], q)
    weights = (proposed.double() / steps**2)[x]
    first = torch.zeros(vocabulary, dtype=torch.float64, device=device).index_add_(0, sampled[:, 0], weights)
    assert (first - target).abs().max().item() < 2 / steps, "the first token follows the target"
    passed = torch.zeros(vocabulary, dtype=torch.float64, device=device)
    passed.index_add_(0, x, (number == 2).double() / steps**2)
    ratio = (target / proposed if draft_model else target).clamp(max=1)
    assert (passed - ratio)[proposed > 0].abs().max().item() < 1.01 / steps, "acceptance"


def unusable_rows(device: str) -> None:
    """No token at all yields 0, a support that was not made -1; a residual of nothing falls back to the target."""
    tokens = torch.tensor([[-1, -1], [-1, -1], [3, 8]], dtype=torch.int32, device=device)
    probabilities = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.25, 0.75]], device=device)
    made = Support(tokens, probabilities, torch.tensor([0, -1, 2], dtype=torch.int32, device=device))
    none = torch.empty(3, 0, dtype=torch.int64, device=device)
    sampled, number = reject(made, none, none.float(), torch.full((3,), 0.5, device=device), None)
    assert sampled.tolist() == [[0], [-1], [8]]
    assert number.tolist() == [1, 1, 1]
    both = Support(tokens[2:].repeat(2, 1), probabilities[2:].repeat(2, 1), made.counts[2:].repeat(2))
    q = torch.zeros(1, 1, 9, device=device)
    q[0, 0, 3], q[0, 0, 8] = 0.25, 0.75
    draft, half = torch.tensor([[5]], device=device), torch.full((1, 1), 0.5, device=device)
    sampled, number = reject(both, draft, half, half[0], q)
    assert sampled.tolist() == [[8, -1]], "p = q leaves nothing: the target itself"
    assert number.tolist() == [1]
