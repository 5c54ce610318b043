"""The page of a plan: whole, self-contained, and deaf to what strangers put into recipes and checkpoints."""

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "planning"))
import cases

from toolkit.display.markup import Html, tag, text
from toolkit.display.memory_bar import HEIGHT, WIDTH, Scale, bar
from toolkit.display.plan_html import page
from toolkit.display.sides_html import beside
from toolkit.planning.budget import Budget, Place, Term
from toolkit.planning.compare import Changed, Comparison
from toolkit.planning.make import make_plan
from toolkit.planning.plan import Finding, Severity

SHIPPED = PurePosixPath("/toolkit/conf")
GIB = 2**30
VOID = {"meta", "rect", "line", "br"}
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;\x00\x1b[0m\ud800"


class Reader(HTMLParser):
    """Reads a page as a browser would, and sees that every element ends where it should."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict]] = []
        self.text: list[str] = []
        self.feed(document)
        self.close()
        assert self.open == []

    def handle_starttag(self, name, attributes):
        self.seen.append((name, dict(attributes)))
        self.open.append(name)

    def handle_startendtag(self, name, attributes):
        assert name in VOID
        self.seen.append((name, dict(attributes)))

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)

    def all(self, name: str) -> list[dict]:
        return [attributes for found, attributes in self.seen if found == name]


def planned(config=None, **changes):
    return make_plan(
        config or cases.config(limits__kv_cache_memory_bytes=GIB), "mine", cases.facts(**changes), cases.machine()
    )


def read(plan, values=None, origins=None) -> Reader:
    return Reader(page(plan, origins or {}, values or {}, SHIPPED, Scale()))


def test_it_says_what_the_plan_says():
    plan = planned(cases.on_v100())
    said = " ".join(read(plan, {"kv": {"dtype": "fp8"}}, {"kv.dtype": "/toolkit/conf/kv/x.yaml"}).text)
    for word in (
        "mine: model",
        "refused: serve would not start",
        "no-gpu",
        "kv/x.yaml",
        "prefill_gqa",
        "--max-model-len",
    ):
        assert word in said
    for term in plan.budget.terms:
        assert term.purpose in said
        assert term.source in said
    assert "NCCL buffers" in said
    known = planned()
    assert f"{known.capacity.tokens:,}" in " ".join(read(known).text)
    assert "this plan can be served" in " ".join(read(known).text)


def test_nothing_is_taken_from_elsewhere_and_no_script_may_run():
    document = page(planned(), {}, {}, SHIPPED, Scale())
    found = Reader(document)
    assert {name for name, _ in found.seen} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "base",
        "form",
        "a",
    } == set()
    assert not any(key.startswith("on") or key in ("src", "href", "style") for _, keys in found.seen for key in keys)
    assert re.findall(r"url\(|@import|https?://(?!127\.0\.0\.1)", document) == []
    policy = next(keys["content"] for keys in found.all("meta") if "http-equiv" in keys)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def strangers_plan():
    """Every text of a plan that a recipe, a checkpoint or a machine can write into."""
    config = cases.config(
        limits__kv_cache_memory_bytes=GIB,
        server__host=EVIL,
        engine__extra_arguments=[EVIL],
        engine__environment={"A" + EVIL: EVIL},
        engine__inherit=[EVIL],
    )
    plan = make_plan(
        config, EVIL, cases.facts(name=EVIL, config={**cases.LLAMA, "architectures": [EVIL]}), cases.machine()
    )
    term = Term(EVIL, GIB, EVIL, 0.5)
    finding = replace(plan.findings[0], rule=EVIL, where=EVIL, message=EVIL, fix=EVIL)
    switch = replace(plan.switches[0], name=EVIL, source=EVIL, reason=EVIL)
    host = Term(EVIL, GIB, EVIL, place=Place.host)
    budget = Budget((*plan.budget.terms, term, host), (EVIL,))
    return replace(plan, budget=budget, findings=(*plan.findings, finding), switches=(switch,))


def test_a_strangers_texts_stay_texts():
    clean = read(planned(cases.on_v100()))
    values = {"a": {EVIL: EVIL, "b": {EVIL: 1}}}
    document = page(strangers_plan(), {f"a.{EVIL}": EVIL, "a.b": f"command line: {EVIL}"}, values, SHIPPED, Scale())
    found = Reader(document)
    assert {name for name, _ in found.seen} <= {name for name, _ in clean.seen}
    assert {key for _, keys in found.seen for key in keys} <= {key for _, keys in clean.seen for key in keys}
    assert "".join(found.text).count("<script>alert(1)</script>") > 20, "they are shown"
    document.encode("utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", document)


def test_markup_escapes_what_was_not_made_by_it():
    assert tag("p", "<b>", tag("i", "&"), title='"') == '<p title="&quot;">&lt;b&gt;<i>&amp;</i></p>'
    assert text(Html("<b>")) == "<b>"
    assert text("a" + Html("<b>")) == "a&lt;b&gt;", "joined with a plain text it is one"


def widths(drawn: Html) -> list[float]:
    return [float(keys["width"]) for keys in Reader(drawn).all("rect")]


@pytest.mark.parametrize("memory", [0, 16 * GIB, 4 * GIB])
def test_the_bar_is_to_scale_and_never_wider_than_itself(memory):
    budget = Budget((Term("a", 3 * GIB, "-"), Term("b", 5 * GIB, "-", 0.2), Term("c", 9 * GIB, "-", place=Place.host)))
    drawn = bar(budget, Scale(memory, memory // 2))
    whole = max(memory, 9 * GIB)
    assert widths(drawn) == pytest.approx([WIDTH * size * GIB / whole for size in (3, 5, 1)], abs=0.01)
    assert sum(widths(drawn)) <= WIDTH + 0.02
    rects = Reader(drawn).all("rect")
    ends = [float(keys["x"]) + float(keys["width"]) for keys in rects]
    assert [float(keys["x"]) for keys in rects][1:] == pytest.approx(ends[:-1], abs=0.02)
    lines = Reader(drawn).all("line")
    assert [float(keys["x1"]) for keys in lines] == (
        [pytest.approx(WIDTH * (memory // 2) / whole, abs=0.01)] if memory else []
    )
    assert Reader(drawn).all("svg")[0]["viewbox"] == f"0 0 {WIDTH:g} {HEIGHT:g}"


@pytest.mark.parametrize(("memory", "limit", "begins"), [(16, 14, 14), (10, 9, 9.25), (16, 16, 5), (0, 0, 5)])
def test_what_the_engine_takes_beside_its_share_stands_behind_it(memory, limit, begins):
    """Where the engine profiles; with its cache's bytes told, it has no share."""
    terms = (Term("in", 5 * GIB, "-", 0.85), Term("beside", GIB // 2, "-", 0.5, beside_share=True))
    drawn = bar(Budget(terms), Scale(memory * GIB, limit * GIB))
    whole = max(memory, 10)
    parts = {keys["class"]: float(keys["x"]) / WIDTH * whole for keys in Reader(drawn).all("rect")}
    assert parts["k1"] == pytest.approx(begins, abs=0.01)
    assert max(float(keys["x"]) + float(keys["width"]) for keys in Reader(drawn).all("rect")) <= WIDTH + 0.02


def test_no_text_stands_inside_the_stretched_drawing():
    drawn = Reader(bar(planned().budget, Scale()))
    assert drawn.all("text") == []
    assert drawn.all("svg")[0]["role"] == "img"
    assert len(drawn.all("title")) == len(drawn.all("rect"))


def compared(name: str) -> Comparison:
    changed = (Changed(name, name, None), Changed("a", 1, 2))
    capacity = (Changed("tokens", 3000, 2000), Changed("concurrency", 1.5, None))
    findings = (Changed(name, "refuse", None), Changed("b", "unchecked", "info"))
    memory = (Changed(name, GIB, 2 * GIB),)
    return Comparison(name, f"{name} other", changed, capacity, memory, (Changed(name, True, None),), findings)


def test_what_differs_stands_in_tables_that_belong_together():
    found = Reader(beside(compared("mine")))
    said = found.text
    for row in (
        ["tokens", "3,000", "2,000", "+50.0%"],
        ["full requests at once", "1.50", "unknown"],
        ["mine", "1.000", "2.000", "-50.0%"],
        ["mine", "on", "-"],
        ["mine", "refused", "-"],
        ["b", "unknown", "note"],
    ):
        at = [number for number, word in enumerate(said) if said[number : number + len(row)] == row]
        assert len(at) == 1, row
    assert [keys["class"] for keys in found.all("table")] == [
        "beside", "beside", "beside numbers", "beside numbers", "beside",
    ]  # fmt: skip
    nothing = Comparison("a", "b", (), (), (), (), ())
    assert Reader(beside(nothing)).text == ["beside b", "nothing differs"]


def test_a_stranger_beside_a_plan_stays_a_text():
    clean, found = Reader(beside(compared("mine"))), Reader(beside(compared(EVIL)))
    assert [name for name, _ in found.seen] == [name for name, _ in clean.seen]
    assert "".join(found.text).count("<script>alert(1)</script>") > 8
    page(planned(), {}, {}, SHIPPED, Scale(), sides=[beside(compared(EVIL))]).encode()


def test_rules_that_wait_for_one_fact_are_one_finding():
    plan = planned()
    waiting = [Finding(rule, Severity.unchecked, "x", "not checked, as y", "") for rule in ("one", "two")]
    said = "".join(read(replace(plan, findings=tuple(waiting))).text)
    assert "unknown one, two at x" in said
    assert said.count("not checked, as y") == 1
