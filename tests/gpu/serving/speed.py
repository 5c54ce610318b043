"""Start-up phases and tokens a second beside stock vLLM, one server at a time, each twice and in turn."""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from tests.gpu.serving import judge
from tests.gpu.serving.checks import prompts
from tests.gpu.serving.server import Served
from tests.gpu.serving.stock import Stock

ORDER = ("ours", "stock", "stock", "ours")
"""What warms or cools on the way then weighs on both alike; the first start of each is one without compiled code."""
REPEATS = 3
TOKENS = 256


def beside_stock(case, place):
    """Each round's start and speed, whether tokens are equal, and the ratios of the medians."""
    rounds, tokens, argv = [], {}, None
    for who in ORDER:
        server = Served(case, place) if who == "ours" else Stock(case, place, argv)
        with server:
            answers = [server.client.complete(prompt) for prompt in prompts(1, *case.lengths)]
            tokens.setdefault(who, answers)
            seen = {"tokens_per_s": speed(server.client)}
        if who == "ours":
            argv = argv or server.receipt["argv"]
        rounds.append({"who": who, "ready_s": round(server.seconds, 1), "timings": server.timings, **seen})
    return {"rounds": rounds, "tokens_equal": judge.share(tokens["ours"], tokens["stock"]), "ratio": ratios(rounds)}


def ratios(rounds):
    """Ours over stock: the medians of all samples, for one request and for 32."""
    found = {}
    for load in ("one", "of_32"):
        each = {
            who: [value for row in rounds if row["who"] == who for value in row["tokens_per_s"][load]]
            for who in ("ours", "stock")
        }
        found[load] = round(statistics.median(each["ours"]) / statistics.median(each["stock"]), 3)
    return found


def speed(client):
    """Tokens a second of one request, and of 32 at once; REPEATS samples each, after one that warms up."""
    one, many = prompts(8, 100), prompts(9, *[100] * 32)
    return {"one": samples(client, one), "of_32": samples(client, many)}


def samples(client, asked):
    """Tokens a second, REPEATS times."""
    found = []
    with ThreadPoolExecutor(len(asked)) as pool:
        list(pool.map(lambda prompt: client.complete(prompt, 8), asked))
        for _ in range(REPEATS):
            begun = time.monotonic()
            list(pool.map(lambda prompt: client.complete(prompt, TOKENS), asked))
            found.append(round(len(asked) * TOKENS / (time.monotonic() - begun)))
    return found
