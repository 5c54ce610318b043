"""Whether served tokens are right: held against transformers in float32, with the cache's rounding of keys and values.

Float16 bounds. A model in float16 differs from one in float32 by less than BEST and WORST allow in any of its choices.

FP8 bounds. The cache's rounding is in the reference, but it magnifies float16's: a key or value next to the boundary of
two codes is rounded to either, up to an eighth or a quarter of itself apart, and all later layers see it. How much that
costs depends on the model, so the reference measures it: keys and values are moved by up to half a unit in a float16's
last place, SEEDS times anew (`Reference.noise`).
- An engine that takes t where the reference finds b best has moved the margin between them by at least t's shortfall:
  the largest shortfall stays below the largest move of a margin that was seen, and WORST.
- The mean shortfall grows with the share of keys and values that cross a boundary, and so with the distance by which
  they are off. They pass two or three roundings to float16 on their way (projection, norm, rotation): it stays below
  PASSES times the mean that was seen, ERRORS standard errors of a mean of so many tokens, and MEAN.
"""

import math
import statistics

from tests.gpu.serving import smollm2
from tests.gpu.serving.checks import prompts

BEST, WORST = 0.95, 0.05
"""Of all tokens: the share that must be the reference's best, and the largest shortfall in nats."""
MEAN = (1 - BEST) * WORST
"""The mean shortfall, in nats, that these two allow."""
PASSES = 2
ERRORS = 4
SEEDS = range(4)


def ask(client, case):
    """The case's prompts and their greedy answers."""
    if case.family == "smollm2":
        return [(prompt, client.complete(prompt, smollm2.TOKENS)) for prompt in smollm2.prompts(case.kv)]
    named = {"model": case.adapter} if case.adapter else {}
    return [(prompt, client.complete(prompt, **named)) for prompt in prompts(1, *case.lengths)]


def judged(case, answers, models):
    """What the comparison gave, with `fault` where a bound is broken."""
    from tests.gpu.serving.reference import Reference

    adapter = models / f"{case.family}_lora" if case.adapter else None
    reference = Reference(models / case.family, case.kv, adapter)
    nats = [short for prompt, tokens in answers for short in reference.shortfalls(prompt, tokens)]
    if case.kv == "float16":
        return verdict(nats, best=BEST, worst=WORST)
    drawn = [reference.noise(prompt, tokens, SEEDS) for prompt, tokens in answers]
    return beside_noise(nats, [short for each, _ in drawn for short in each], max(max(moved) for _, moved in drawn))


def beside_noise(nats, noise, moved):
    """The verdict on shortfalls, given those that float16's noise brings and the largest move of a margin."""
    mean = statistics.fmean(noise)
    most = MEAN + PASSES * mean + ERRORS * statistics.pstdev(noise) / math.sqrt(len(nats))
    found = verdict(nats, worst=WORST + moved, mean=most)
    seen = {"mean_shortfall_nats": mean, "largest_move_nats": moved, "mean_allowed_nats": most}
    return found | {"float16_noise": {what: round(value, 5) for what, value in seen.items()}}


def verdict(nats, best=0.0, worst=float("inf"), mean=float("inf")):
    """Share of the best, largest and mean shortfall, with `fault` where one is beyond its bound."""
    share_best, largest, average = sum(short == 0 for short in nats) / len(nats), max(nats), statistics.fmean(nats)
    found = {
        "reference": {
            "tokens": len(nats),
            "best": round(share_best, 4),
            "largest_shortfall_nats": round(largest, 4),
            "mean_shortfall_nats": round(average, 5),
        }
    }
    broken = [
        f"{what} {value:.4f} ({least} {bound:.4f})"
        for what, value, least, bound, wrong in (
            ("share of the reference's best", share_best, "at least", best, share_best < best),
            ("largest shortfall in nats", largest, "at most", worst, largest > worst),
            ("mean shortfall in nats", average, "at most", mean, average > mean),
        )
        if wrong
    ]
    return {**found, **({"fault": "; ".join(broken)} if broken else {})}


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
