"""A recorded configuration is used again; only this call's own options come from the command line."""

import pytest

from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import ServeConfig
from toolkit.errors import ConfigurationError
from toolkit.runs.receipt import Receipt
from toolkit.runs.secrets import LEFT_OUT
from toolkit.serving.replay import recorded_run, replayed

RECORDED = {
    "checkpoint": {"name": "m", "source": {"kind": "random"}},
    "server": {"port": 9000},
    "engine": {"environment": {"A": "1"}, "start_timeout_s": 7.0},
    "question": "Who?",
    "until": "answered",
    "runs": "/old",
}


def receipt(config: dict) -> Receipt:
    return Receipt("r", "0", "then", "tiny", config, {}, [], {}, [], {}, {})


def composed(*overrides: str, **values: object) -> Composed:
    plain = {
        "output": "text", "until": "stopped", "dry_run": False, "runs": "", "receipt": "/r.json", "question": "default",
        "server": {"port": 8000}, "kv": {"dtype": "float16"}, "engine": {"environment": {}}, **values,
    }  # fmt: skip
    config = ServeConfig(receipt="/r.json")
    return Composed(config, plain, {"server.port": "command line: x", "question": "default"}, "", overrides)


def test_the_recorded_configuration_is_used():
    again = replayed(composed(), receipt(RECORDED))
    assert (again.config.server.port, again.config.question) == (9000, "Who?")
    assert again.config.engine.start_timeout_s == 7.0
    assert again.recipe == "tiny"
    assert again.origins["question"] == "receipt: /r.json"


def test_how_to_run_comes_from_this_call():
    again = replayed(composed(), receipt(RECORDED))
    assert (again.config.until.value, again.config.runs) == ("stopped", "")


def test_single_values_and_groups_of_this_call_win():
    again = replayed(
        composed(
            "server.port=8001",
            "kv=fp8_e4m3",
            "+engine.environment.B=2",
            server={"port": 8001},
            kv={"dtype": "fp8_e4m3"},
            engine={"environment": {"B": "2"}},
        ),
        receipt(RECORDED),
    )
    assert (again.config.server.port, again.config.kv.dtype) == (8001, "fp8_e4m3")
    assert again.config.engine.environment == {"A": "1", "B": "2"}


def test_a_secret_that_was_left_out_must_be_set_again():
    config = {**RECORDED, "engine": {"environment": {"HF_TOKEN": LEFT_OUT}}}
    with pytest.raises(ConfigurationError) as caught:
        replayed(composed(), receipt(config))
    assert caught.value.what == "the receipt holds no value for engine.environment.HF_TOKEN"
    assert caught.value.fix == "set it again: +engine.environment.HF_TOKEN=VALUE"
    set_again = composed("+engine.environment.HF_TOKEN=x", engine={"environment": {"HF_TOKEN": "x"}})
    assert replayed(set_again, receipt(config)).config.engine.environment == {"HF_TOKEN": "x"}


def test_a_configuration_of_another_version_is_refused_by_key():
    with pytest.raises(ConfigurationError, match=r"unknown option 'server\.prot'"):
        replayed(composed(), receipt({**RECORDED, "server": {"prot": 1}}))


def test_without_a_receipt_nothing_is_recorded():
    assert recorded_run(Composed(ServeConfig(), {}, {}, "", ())) is None
