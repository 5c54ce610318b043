"""The record of kv_scales.py as a page and as a picture."""

from __future__ import annotations

import math
from typing import Any

from kv_scales_judge import UNIT, scaled_name

from toolkit.calibration.svg import Panel, Series, document, text

K_COLOR, V_COLOR, KL_COLOR = "#1668b8", "#d9730d", "#333"
FLOOR = 1e-6
"""The smallest share that is told from none."""
WIDTH, PLOT, LEFT = 1000, 700, 80


def page(record: dict[str, Any], picture: str | None) -> str:
    """Markdown; picture: the file's name beside it."""
    lines = [
        "# KV scales on a real model",
        "",
        f"`{record['command']}`, {record['created']}, vLLM {record['packages']['vllm']}, attention: {record['route']}.",
        "",
        f"SmolLM2-135M-Instruct on the CPU engine: {record['positions']:,} positions of {record['prompts']} prompts",
        "and the model's answers to them, none of them in the calibration's set; the tokens with which all prompts",
        "begin (the system prompt) are left out. KL is that of the next token's",
        "distribution over the whole vocabulary against an unquantized (float16) cache, in nats; attention error is",
        "|o - o'| / |o| of a layer's output.",
        "",
        "## What was measured",
        "",
        *[f"- {line}" for line in record["claims"]],
        "",
        "Intervals: of the mean over prompts of the paired difference, by bootstrap over prompts; verdicts are those",
        f"of the intervals: {record['against'][UNIT]['level']:.0%} for unit scales, all others together 95 %",
        "(Bonferroni). Coarse codes are those below the format's smallest normal number. No more is claimed than this",
        "model and these prompts show.",
        "",
        "| cache | KL mean | median | 99 % | top-1 agreement | attention error, layer 0 | mean | KL minus calibrated |",
        "|---|---|---|---|---|---|---|---|",
        *[_row(name, arm, record["against"].get(name)) for name, arm in record["arms"].items()],
        "",
        "Bytes of the cache, keys / values: the largest number stored (in the layer where it is smallest, scale not",
        "multiplied in), and the shares at the format's largest number, below its smallest normal one, and zero.",
        "",
        "| cache | largest | at the format's largest | coarse | zero |",
        "|---|---|---|---|---|",
        *[_codes_row(name, codes) for name, codes in record["codes"].items()],
    ]
    return "\n".join([*lines, *(["", f"![KL and codes by scale]({picture})"] if picture else [])]) + "\n"


def _row(name: str, arm: dict[str, Any], against: dict[str, Any] | None) -> str:
    errors = f"{arm['attention_error_first_layer']:.4f} | {arm['attention_error_mean']:.4f}"
    kl = f"{arm['kl_mean']:.5f} | {arm['kl_median']:.5f} | {arm['kl_p99']:.4f}"
    words = "" if against is None else f"{against['kl'][1]:+.5f} to {against['kl'][2]:+.5f}: {against['verdict']}"
    return f"| {name} | {kl} | {arm['top1_agreement']:.2%} | {errors} | {words} |"


def _codes_row(name: str, codes: dict[str, dict[str, float]]) -> str:
    def both(key: str, form: str) -> str:
        return " / ".join(format(codes[kind][key], form) for kind in "kv")

    shares = " | ".join(both(key, ".4%") for key in ("at_largest", "subnormal", "zero"))
    return f"| {name} | {both('largest', 'g')} | {shares} |"


def picture(record: dict[str, Any], factors: tuple[float, ...]) -> str:
    """KL and the use of codes against the factor by which scales are wrong."""
    names = {factor: scaled_name(factor) for factor in factors}
    labels = [f"{factor:g}" if factor >= 1 else f"1/{1 / factor:g}" for factor in factors]
    arms, codes = record["arms"], record["codes"]

    def shares(kind: str, key: str) -> list[float | None]:
        return [max(codes[names[factor]][kind][key], FLOOR) for factor in factors]

    kl = [arms[names[factor]]["kl_mean"] for factor in factors]
    low, high = 10.0 ** math.floor(math.log10(min(kl))), 10.0 ** math.ceil(math.log10(max(kl)))
    powers = range(round(math.log10(low)), round(math.log10(high)) + 1)
    marks = [(10.0**power, f"{10.0**power:g}") for power in powers]
    top = Panel("mean KL to an unquantized cache, nats", LEFT, 70, PLOT, 230, low, high, marks, labels)
    marks = [(10.0**power, f"1e{power}" if power else "1") for power in range(-5, 1)] + [(FLOOR, "none")]
    bottom = Panel("shares of the cache's bytes", LEFT, 370, PLOT, 260, FLOOR, 1.0, marks, labels)
    series = [
        Series("K at the largest code", "#5b2d90", shares("k", "at_largest")),
        Series("V at the largest code", "#b0307a", shares("v", "at_largest")),
        Series("K coarse", K_COLOR, shares("k", "subnormal"), filled=False, dashed=True),
        Series("V coarse", V_COLOR, shares("v", "subnormal"), filled=False, dashed=True),
        Series("K zero", K_COLOR, shares("k", "zero")),
        Series("V zero", V_COLOR, shares("v", "zero")),
    ]
    elements = [
        text(LEFT, 26, f"E4M3 scales times a factor, SmolLM2, attention: {record['route']}", bold=True),
        *top.draw([Series("calibrated times a factor", KL_COLOR, kl)], PLOT + 20),
        *top.rule(arms[UNIT]["kl_mean"], "unit scales"),
        *bottom.draw(series, PLOT + 20),
        text(LEFT + PLOT / 2, 672, "factor on the calibrated scales", anchor="middle"),
    ]
    return document(WIDTH, 690, elements)
