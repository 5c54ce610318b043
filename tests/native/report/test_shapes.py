"""Declared shapes: arithmetic, the kernel's own names, and what a wrong entry says."""

import pytest

from toolkit.errors import ConfigurationError
from toolkit.native.report.expression import evaluate, pow2
from toolkit.native.report.shapes import Shapes

ENTRY = """
copy:
  shape: {rows: 10, columns: 33, packs: columns / pack}
  dram: rows * columns * (t0 + last)
  threads: min(64, pow2(packs))
  blocks: rows
  layouts:
    rows: {}
    warps: {threads: 32, shape: {rows: 7}}
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "shapes.yaml"
        path.write_text(text)
        return Shapes.read(path)

    return write


def test_expressions_see_sizes_types_and_pack(written):
    work = written(ENTRY).work("copy_f16_e4m3_rows8_sm70")
    assert (work.shape, work.dram, work.accessed) == ("rows=10 columns=33", 990, 990)
    assert (work.threads, work.blocks, work.shared, work.rounds) == (8, 10, 0, None)


def test_a_layout_replaces_fields_and_sizes(written):
    work = written(ENTRY).work("copy_f32_f32_warps_sm70")
    assert (work.shape, work.dram, work.threads, work.blocks) == ("rows=7 columns=33", 7 * 33 * 8, 32, 7)


@pytest.mark.parametrize("kernel", ["move_f16_f16_rows8_sm70", "copy_f16_f16_tiles8_sm70"])
def test_what_is_not_declared_is_none(kernel, written):
    assert written(ENTRY).work(kernel) is None


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("blocks: rows", "blocks: row", "row is no number, operation, or one of columns, every, first, last, pack"),
        ("blocks: rows", "blocks: rows +", "rows +: invalid syntax"),
        ("blocks: rows", "blocks: rows / 0", "rows / 0: division by zero"),
        ("blocks: rows", "blocks: rows.real", "rows.real is no number"),
        ("blocks: rows", "block: rows", "unknown fields: block"),
        ("  blocks: rows\n", "", "'blocks'"),
    ],
)
def test_a_wrong_entry_says_where_and_why(old, new, why, written):
    with pytest.raises(ConfigurationError) as caught:
        written(ENTRY.replace(old, new)).work("copy_f16_f16_rows8_sm70")
    assert caught.value.where.endswith("shapes.yaml: copy.layouts.rows")
    assert caught.value.why.startswith(why)


@pytest.mark.parametrize("text", ["- a\n", "copy: 3\n", "a: [\n"])
def test_what_is_no_table_is_refused(text, written):
    with pytest.raises(ConfigurationError, match=r"^the declared shapes "):
        written(text)


def test_powers_of_two():
    assert [pow2(x) for x in (0.2, 1, 2, 2.5, 64, 65)] == [1, 1, 2, 4, 64, 128]
    assert evaluate("ceil(7 / 2) + max(1, 2) - 3 // 2", {}) == 5
