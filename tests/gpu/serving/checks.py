"""What a running server must do beyond equal tokens. Each check returns what was seen, and raises on a fault."""

import random
import time
from concurrent.futures import ThreadPoolExecutor

VOCABULARY = range(300, 4000)


def prompts(seed, *lengths):
    """Random prompts of token ids."""
    draw = random.Random(seed)
    return [[draw.choice(VOCABULARY) for _ in range(length)] for length in lengths]


def concurrent(client):
    """64 requests at once; most of each answer equals the one given alone (a batch rounds otherwise)."""
    asked = prompts(2, *[20 + 7 * n for n in range(64)])
    begun = time.monotonic()
    with ThreadPoolExecutor(64) as pool:
        together = list(pool.map(client.complete, asked))
    seconds = time.monotonic() - begun
    alone = [client.complete(prompt) for prompt in asked[::8]]
    first = sum(one[0] == many[0] for one, many in zip(alone, together[::8], strict=True))
    assert all(len(tokens) == 32 for tokens in together), "an answer is short"
    assert first >= 7, f"{first} of 8 first tokens are those of the same request alone"
    return {"requests": 64, "tokens_per_s": round(64 * 32 / seconds), "first_tokens_equal_alone": f"{first}/8"}


def cancelled(client):
    """A client that hangs up leaves nothing running, and the next request is answered."""
    assert client.abandon(prompts(3, 50)[0])
    for _ in range(50):
        if client.metric("vllm:num_requests_running") == 0:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the abandoned request still runs")
    return {"answered_after": len(client.complete(prompts(3, 60)[0], 4))}


def prefix_hits(client):
    """The same long beginning is computed once, and the answer stays the same."""
    beginning = prompts(4, 1500)[0]
    before = client.metric("vllm:prefix_cache_hits_total")
    answers = [client.complete([*beginning, 500]) for _ in range(3)]
    hits = client.metric("vllm:prefix_cache_hits_total") - before
    assert hits > 0, "no token of the second request came from the cache"
    assert answers[1] == answers[2], "two requests with the same cached beginning differ"
    return {"tokens_hit": hits, "same_as_computed": answers[0] == answers[1]}


def preempted(client):
    """More requests than the cache holds: some are preempted, and all are answered in full."""
    asked = prompts(5, *[200] * 24)
    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda prompt: client.complete(prompt, 400), asked))
    count = client.metric("vllm:num_preemptions_total")
    assert all(len(tokens) == 400 for tokens in answers), "an answer is short"
    assert count > 0, "nothing was preempted: the cache is too large for this check"
    return {"preemptions": count}


def drafted(client):
    """Tokens were drafted; how many of them the model then took is said."""
    before = [client.metric(f"vllm:spec_decode_num_{what}_tokens_total") for what in ("draft", "accepted")]
    client.complete(prompts(6, 100)[0], 64)
    after = [client.metric(f"vllm:spec_decode_num_{what}_tokens_total") for what in ("draft", "accepted")]
    drafts, accepted = (now - then for now, then in zip(after, before, strict=True))
    assert drafts > 0, "no token was drafted"
    return {"drafted": drafts, "accepted": accepted}


def capital(client):
    """A model with real weights knows one thing."""
    answer = client.chat("What is the capital of France? Answer in English.")
    assert "Paris" in answer, answer
    return {"answer": answer.strip()}


EXTRA = {check.__name__: check for check in (concurrent, cancelled, prefix_hits, preempted, drafted, capital)}
