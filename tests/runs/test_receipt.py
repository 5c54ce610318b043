"""A receipt is read back whole, or refused with a reason."""

import json
import re

import pytest

from toolkit.errors import CheckFailedError, ConfigurationError
from toolkit.runs.packages import Package
from toolkit.runs.receipt import Outcome, Receipt, load, write


@pytest.fixture
def receipt() -> Receipt:
    return Receipt(
        run="smollm2-1",
        toolkit="0.1.0",
        created="2026-11-29T00:00:00Z",
        recipe="smollm2_cpu",
        config={"server": {"port": 8000}},
        plan={"engine": "cpu"},
        argv=["python", "-m", "vllm"],
        env={"PATH": "/bin"},
        dropped=["LD_PRELOAD"],
        machine={"cpu_count": 2},
        files={"path": "/m"},
        packages={"torch": Package("2.13.0", "ab" * 32)},
        timings={"planning": 0.25},
        answer={"text": "Paris"},
        capacity={"blocks": 728, "blocks_apart": 2},
        findings=[{"rule": "capacity-differs"}],
        workers=[{"rank": 0, "layers": [{"k_scale": [0.5]}]}],
        outcome=Outcome("stopped", 0, "until=answered"),
    )


def test_it_is_read_back_whole(receipt, tmp_path):
    write(receipt, tmp_path / "receipt.json", frozenset())
    assert load(tmp_path / "receipt.json") == receipt


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda text: text[: len(text) // 2], "it is not JSON: "),
        (lambda text: "", "it is not JSON: "),
        (lambda text: "[]", "it has no schema version"),
        (lambda text: json.dumps({"schema": 1}), "it lacks answer, argv, config, "),
        (lambda text: text.replace('"reason"', '"reasons"'), "Outcome.__init__() got an unexpected keyword"),
        (lambda text: text.replace('"version"', '"vision"'), "Package.__init__() got an unexpected keyword"),
        (lambda text: re.sub(r'"machine": {[^}]*}', '"machine": []', text), "config and machine must be objects"),
    ],
)
def test_a_damaged_file_is_refused(receipt, tmp_path, damage, why):
    path = tmp_path / "receipt.json"
    write(receipt, path, frozenset())
    path.write_text(damage(path.read_text()))
    with pytest.raises(CheckFailedError) as caught:
        load(path)
    assert (caught.value.what, caught.value.exit_code) == ("the receipt is damaged", 5)
    assert caught.value.why.startswith(why)


def test_a_receipt_from_before_the_engine_was_compared_is_read(receipt, tmp_path):
    path = tmp_path / "receipt.json"
    write(receipt, path, frozenset())
    data = json.loads(path.read_text())
    del data["capacity"], data["findings"]
    path.write_text(json.dumps(data))
    assert load(path).answer == receipt.answer
    assert (load(path).capacity, load(path).findings) == (None, ())


def test_another_schema_is_refused_by_name(receipt, tmp_path):
    path = tmp_path / "receipt.json"
    write(receipt, path, frozenset())
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 7'))
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    assert caught.value.what == "the receipt has schema 7, and this toolkit reads schema 1"
    assert caught.value.fix == "replay it with the toolkit that wrote it, version 0.1.0"


def test_a_missing_file_is_a_configuration_error(tmp_path):
    for path in (tmp_path / "nothing.json", tmp_path):
        with pytest.raises(ConfigurationError, match="the receipt cannot be read") as caught:
            load(path)
        assert caught.value.fix == "set receipt=FILE to the receipt.json in a run's folder"
