"""SmolLM2's greedy answers with its real weights, recorded on the CPU engine: python -m tests.gpu.serving.smollm2.

Another engine rounds elsewhere, and a free answer that has once left the record says nothing more. So each recorded
answer is also put to the engine as a prompt, which tells at every place how likely it finds the recorded token. That is
for float16: with an FP8 cache two engines stand apart by the noise of both, and each is held against the reference.
"""

import json
import sys
from pathlib import Path

from toolkit.checkpoint.progress import Silent

RECORD = Path(__file__).resolve().parents[3] / "docs/evidence/smollm2_cpu_answers.json"
TOKENS = 48
CACHES = ("float16", "fp8_e4m3")
BEST, WORST = 0.97, 0.15
"""Of all recorded tokens: the share that must be the engine's best too, and the largest shortfall in nats."""
PROMPTS = (
    "The capital of France is",
    "Water boils at a temperature of",
    "def fibonacci(n):\n    ",
    "Once upon a time there was a small village",
    "The three primary colours are",
    "In 1969, the first human being",
    "A list of the planets, from the Sun outwards: Mercury, Venus,",
    "To bake bread you need flour, water,",
)


def recorded(kv):
    """The record's answers with this cache: prompt, prompt_token_ids, token_ids and text of each."""
    return json.loads(RECORD.read_text(encoding="utf-8"))["answers"][kv]


def prompts(kv):
    """The token ids of each prompt."""
    return [answer["prompt_token_ids"] for answer in recorded(kv)]


def against_record(client):
    """How the engine finds the recorded float16 answers; `fault` where a bound is broken."""
    known = recorded("float16")
    nats = [short for answer in known for short in shortfalls(client, answer)]
    free = [client.complete(answer["prompt_token_ids"], TOKENS) for answer in known]
    equal = sum(same_start(tokens, answer["token_ids"]) for tokens, answer in zip(free, known, strict=True))
    best, worst = sum(short == 0 for short in nats) / len(nats), max(nats)
    found = {
        "tokens": len(nats),
        "best": round(best, 4),
        "largest_shortfall_nats": round(worst, 4),
        "equal_from_the_start": round(equal / len(nats), 4),
    }
    if best >= BEST and worst <= WORST:
        return {"cpu_engine": found}
    fault = f"{best:.3f} of the CPU engine's tokens are the best (at least {BEST}), the worst by {worst:.3f} nats"
    return {"cpu_engine": found, "fault": fault}


def shortfalls(client, answer):
    """For each recorded token: how many nats less likely than its best the engine finds it."""
    asked = [*answer["prompt_token_ids"], *answer["token_ids"]]
    places = client.choice(asked, 1, prompt_logprobs=1)["prompt_logprobs"][-len(answer["token_ids"]) :]
    return [
        max(each["logprob"] for each in place.values()) - place[str(token)]["logprob"]
        for token, place in zip(answer["token_ids"], places, strict=True)
    ]


def same_start(these, those):
    """Equal tokens before the first difference."""
    return next((at for at, (a, b) in enumerate(zip(these, those, strict=True)) if a != b), len(those))


def materialized(given, models):
    """The checkpoint's folder below `models`: a folder as it is, a GGUF file converted."""
    from toolkit.checkpoint.gguf.convert import convert

    where = models / "smollm2"
    if not where.exists():
        if given.is_dir():
            where.symlink_to(given.absolute())
        else:
            where.mkdir()
            convert(given, where, {"file": given.name}, Silent())
    return where


def main():
    """Serve both caches on the CPU engine and write the record."""
    from tests.gpu.serving.cpu_engine import cpu_server

    answers = {}
    for kv in CACHES:
        with cpu_server(kv) as client:
            choices = [client.choice(prompt, TOKENS, ignore_eos=True) for prompt in PROMPTS]
        kept = ("prompt_token_ids", "token_ids", "text")
        rows = zip(PROMPTS, choices, strict=True)
        answers[kv] = [{"prompt": prompt, **{name: choice[name] for name in kept}} for prompt, choice in rows]
    command = "python -m tests.gpu.serving.smollm2"
    record = {"model": "SmolLM2-135M-Instruct, Q4_1, converted to float16", "engine": "cpu", "command": command}
    RECORD.write_text(json.dumps({**record, "answers": answers}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
