"""Whether served tokens are right: held against transformers in float32."""

from tests.gpu.serving.checks import prompts

BOUNDS = {"reference": (0.95, 0.05), "close": (0.55, 2.5)}
"""Of all tokens: the share that must be the reference's best, and the largest shortfall in nats. An FP8 cache rounds
keys and values to 2 or 3 bits after the leading one, and a random model's choices are near ties."""


def ask(client, case):
    """The case's prompts and their greedy answers."""
    named = {"model": case.adapter} if case.adapter else {}
    return [(prompt, client.complete(prompt, **named)) for prompt in prompts(1, *case.lengths)]


def judged(case, answers, models):
    """What the comparison gave, with `fault` where a bound is broken."""
    from tests.gpu.serving.reference import Reference

    reference = Reference(models / case.family, case.family, models / f"{case.family}_lora" if case.adapter else None)
    nats = [short for prompt, tokens in answers for short in reference.shortfalls(prompt, tokens)]
    best, worst = sum(short == 0 for short in nats) / len(nats), max(nats)
    found = {"reference": {"tokens": len(nats), "best": round(best, 4), "largest_shortfall_nats": round(worst, 4)}}
    least, most = BOUNDS[case.against]
    if best < least or worst > most:
        found["fault"] = f"{best:.3f} of the tokens are the best (at least {least}), the worst by {worst:.3f} nats"
    return found


def share(these, those):
    """Equal tokens up to the first difference of each answer, as a share of all."""
    same = total = 0
    for mine, other in zip(these, those, strict=True):
        total += len(mine)
        for a, b in zip(mine, other, strict=True):
            if a != b:
                break
            same += 1
    return round(same / total, 4)
