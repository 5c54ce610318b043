"""topk_topp_support and compact_rejection against vLLM 0.32's own filter and dense rejection kernel, run in torch."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")
language = pytest.importorskip("torch_language")

VOCABULARY, WIDTH = 2000, 64


def supports(volta, logits, temperature, top_k, top_p):
    rows = logits.size(0)
    tokens, counts = torch.empty(rows, WIDTH, dtype=torch.int32), torch.empty(rows, dtype=torch.int32)
    shares = torch.empty(rows, WIDTH)
    volta.topk_topp_support(tokens, shares, counts, logits, temperature, top_k, top_p)
    return tokens, shares, counts


def test_a_mixed_batch_keeps_the_engines_tokens(volta):
    from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p_pytorch

    g = torch.Generator().manual_seed(20260102)
    rows = 60
    logits = torch.randn(rows, VOCABULARY, generator=g) * 4
    temperature = torch.rand(rows, generator=g) * 1.5 + 0.2
    top_k = torch.randint(1, WIDTH, (rows,), generator=g, dtype=torch.int32)
    top_p = torch.rand(rows, generator=g) * 0.98 + 0.01
    top_p[::7] = 1.0
    tokens, shares, counts = supports(volta, logits, temperature, top_k, top_p)
    kept = apply_top_k_top_p_pytorch(logits / temperature.unsqueeze(1), top_k, top_p)
    theirs = kept.softmax(-1)
    for row in range(rows):
        ids = kept[row].isfinite().nonzero().flatten()
        assert tokens[row, : counts[row]].tolist() == ids.tolist()
        torch.testing.assert_close(shares[row, : counts[row]], theirs[row, ids], rtol=1e-5, atol=0)


@pytest.mark.parametrize("draft_model", [True, False])
def test_drafts_pass_where_the_engines_do(draft_model, volta, monkeypatch):
    from vllm.v1.sample import rejection_sampler as engine

    g = torch.Generator().manual_seed(20260103)
    requests, drafts = 40, 5
    logits = torch.randn(requests * (drafts + 1), VOCABULARY, generator=g) * 4
    by = torch.full((logits.size(0),), 0.8), torch.full((logits.size(0),), 20, dtype=torch.int32)
    made = supports(volta, logits, *by, torch.full((logits.size(0),), 0.95))
    target = torch.zeros_like(logits)
    for row, (tokens, shares, count) in enumerate(zip(*made, strict=True)):
        target[row, tokens[:count].long()] = shares[:count]
    judged = logits.unflatten(0, (requests, drafts + 1))[:, :drafts]
    q = torch.softmax(judged + torch.randn(judged.shape, generator=g), -1)
    proposed = q.argmax(-1)
    proposed[3, 1] = -1
    accept, sample = torch.rand(requests, drafts, generator=g) * 0.5, torch.rand(requests, generator=g)
    ours, number = torch.empty(requests, drafts + 1, dtype=torch.int64), torch.empty(requests, dtype=torch.int32)
    model = q if draft_model else None
    volta.compact_rejection(ours, number, proposed, *made, accept, sample, model)

    recovered = torch.full((requests, drafts), 10**6)  # the engine draws them by another method: whichever ours drew
    failed = number <= drafts
    recovered[failed, number[failed] - 1] = ours[failed, number[failed] - 1]
    bonus = torch.where(failed, -7, ours[:, -1])
    theirs = torch.full_like(ours, -1)
    dense = target.unflatten(0, (requests, drafts + 1))[:, :drafts].contiguous()
    for request in range(requests):
        monkeypatch.setattr(engine, "tl", language.Language((request,), (requests,)))
        engine.rejection_random_sample_kernel(
            language.Pointer(theirs),
            language.Pointer(torch.arange(1, requests + 1) * drafts),
            *map(language.Pointer, (proposed, q.contiguous(), dense, bonus, recovered, accept)),
            language.Pointer(torch.zeros(requests, dtype=torch.bool)),
            drafts,
            VOCABULARY,
            None,
            NO_DRAFT_PROBS=not draft_model,
            SYNTHETIC_MODE=False,
        )
    assert ours.tolist() == theirs.tolist()
    assert 0 < failed.sum() < requests
