"""No secret is written down, wherever it was planted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.runs.receipt import Receipt, as_written, load, to_json, write
from toolkit.runs.secrets import LEFT_OUT, left_out, secret_values, without_secrets

PLANTED = {
    "VLLM_API_KEY": "planted-api-key-1",
    "HF_TOKEN": "planted-hub-token-2",
    "AWS_SECRET_ACCESS_KEY": "planted/aws+secret=3",
    "DB_PASSWORD": "planted-password-4",
    "SERVICE_CREDENTIALS": "planted-credentials-5",
    "GITHUB_TOKEN": "planted-github-6",
    "PGPASSWORD": "planted-postgres-7",
    "OPENAI_APIKEY": "planted-openai-8",
}


def receipt(**changes: object) -> Receipt:
    values = {
        "run": "r", "toolkit": "0", "created": "now", "recipe": "", "config": {}, "plan": {}, "argv": [], "env": {},
        "dropped": [], "machine": {}, "files": {},
    }  # fmt: skip
    return Receipt(**{**values, **changes})


def test_secrets_do_not_reach_a_receipt_from_any_side(tmp_path):
    key = "file-api-key-value"
    argv = ["python", "--api-key", "flag-secret-a", "--hf-token=flag-secret-b", "--max-num-batched-tokens", "2048"]
    planted = receipt(
        argv=argv,
        env={**PLANTED, "NESTED": f"user:{PLANTED['HF_TOKEN']}@host"},
        config={"engine": {"environment": PLANTED, "extra_arguments": argv}, "question": f"say {key}"},
        plan={"env": PLANTED, "argv": argv},
        machine={"environment": PLANTED},
        files={"path": f"/models/{PLANTED['DB_PASSWORD']}/x"},
        answer={"text": f"your key is {key}"},
    )
    path = tmp_path / "receipt.json"
    write(planted, path, secret_values((PLANTED,), key, argv))
    text = path.read_text()
    for secret in (*PLANTED.values(), key, "flag-secret-a", "flag-secret-b"):
        assert json.dumps(secret)[1:-1] not in text
    kept = load(path)
    assert kept.argv == ["python", "--api-key", LEFT_OUT, f"--hf-token={LEFT_OUT}", "--max-num-batched-tokens", "2048"]
    assert "config.engine.environment.HF_TOKEN" in json.loads(text)["left_out"]


def test_names_that_only_look_secret_keep_their_values():
    env = {
        "TOKENIZERS_PARALLELISM": "false",
        "VLLM_MAX_TOKENS": "4096-tokens",
        "KEYBOARD": "qwertz-layout",
        "PASSES": "two",
    }
    assert secret_values((env,), None) == frozenset()
    assert without_secrets(env, frozenset()) == env
    ours = {"api_key_file": "/etc/key", "max_num_batched_tokens": 2048, "tokens": 3}
    assert without_secrets(ours, frozenset()) == ours


def test_a_short_value_is_left_out_by_name_only():
    secrets = secret_values(({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"},), None)
    data = {"env": {"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", "HF_HUB_OFFLINE": "1"}}
    assert without_secrets(data, secrets) == {"env": {"HF_HUB_DISABLE_IMPLICIT_TOKEN": LEFT_OUT, "HF_HUB_OFFLINE": "1"}}


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("hf_" + "a" * 34, LEFT_OUT),
        ("Bearer sk-" + "b" * 30, f"Bearer {LEFT_OUT}"),
        ("https://me:pw@proxy:3128/x", f"https://{LEFT_OUT}@proxy:3128/x"),
        ("https://hub/path", "https://hub/path"),
        ("skip this", "skip this"),
    ],
)
def test_well_known_shapes_are_left_out_under_any_name(text, clean):
    assert without_secrets({"note": text}, frozenset()) == {"note": clean}


def test_what_was_left_out_is_listed():
    assert list(left_out({"a": {"B": LEFT_OUT}, "c": ["x", f"--k={LEFT_OUT}"], "d": 1})) == ["a.B", "c[1]"]


LEAVES = st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=20)
DATA = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


@given(st.dictionaries(st.text(max_size=8), DATA, max_size=4), st.text(min_size=8, max_size=20))
def test_a_secret_is_gone_wherever_it_is_planted(data, secret):
    planted = {**data, "x": [f"before {secret} after", {"y": secret}]}
    clean = without_secrets(planted, frozenset({secret}))
    assert secret not in clean["x"][0].replace(LEFT_OUT, "")
    assert clean["x"][1] == {"y": LEFT_OUT}


def test_as_written_is_what_is_read_back(tmp_path):
    original = receipt(env=PLANTED, argv=("a", "b"))
    secrets = secret_values((PLANTED,), None)
    write(original, tmp_path / "r.json", secrets)
    assert as_written(original, secrets) == load(tmp_path / "r.json")
    assert to_json(original, secrets)["schema"] == 1
