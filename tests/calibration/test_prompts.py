"""Sets of prompts: the built-in one is the same everywhere, a user's own is read or refused line by line."""

from __future__ import annotations

import hashlib
import json

import pytest

from toolkit.calibration.builtin import LONG, SHA256, builtin_prompts
from toolkit.calibration.prompts import Prompt, check_pin, jsonl, read_prompts
from toolkit.errors import CheckFailedError, ConfigurationError


def test_the_built_in_set_is_the_pinned_one():
    assert builtin_prompts().sha256 == SHA256 == hashlib.sha256(jsonl(builtin_prompts().prompts)).hexdigest()


def test_it_has_several_scripts_code_numbers_and_long_context_in_both_halves():
    for half in builtin_prompts().halves:
        text = jsonl(half).decode()
        for wanted in ("ß", "ê", "и", "的", "の", "다", "في", "है", "return", "| run |", "last seen in"):
            assert wanted in text
        assert max(prompt.size for prompt in half) > 100_000
        assert any(prompt.text for prompt in half)
        assert any(prompt.messages for prompt in half)


def test_the_set_can_be_written_and_read_as_a_users_file(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(jsonl(builtin_prompts().prompts))
    again = read_prompts(path)
    assert (again.prompts, again.sha256) == (builtin_prompts().prompts, SHA256)


def test_what_is_far_longer_than_the_context_is_left_out_in_pairs():
    whole, small = builtin_prompts(), builtin_prompts().within(2048)
    assert (small.sha256, small.left_out) == (whole.sha256, len(whole.prompts) - len(small.prompts))
    assert 0 < small.left_out < len(LONG)
    assert small.left_out % 2 == 0
    assert whole.within(131072).left_out == 0


def test_a_users_file(tmp_path):
    path = tmp_path / "mine.jsonl"
    chat = {"messages": [{"role": "user", "content": "Hallo, größer"}]}
    data = f'{json.dumps(chat)}\n\n{{"prompt": "Once"}}\n{{"prompt": "Twice"}}\n'.encode()
    path.write_bytes(data)
    found = read_prompts(path)
    assert found.prompts == (Prompt(messages=tuple(chat["messages"])), Prompt("Once"), Prompt("Twice"))
    assert found.sha256 == hashlib.sha256(data).hexdigest()
    assert [len(half) for half in found.halves] == [2, 1]
    assert [prompt.size for prompt in found.prompts] == [15, 4, 5]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", "a prompt is no JSON object"),
        ("[1]", "a prompt is no JSON object"),
        ('{"prompt": ""}', "a prompt is neither a text nor a chat"),
        ('{"prompt": 3}', "a prompt is neither a text nor a chat"),
        ('{"prompt": "x", "model": "y"}', "a prompt is neither a text nor a chat"),
        ('{"messages": []}', "a prompt is neither a text nor a chat"),
        ('{"messages": [{"role": "user"}]}', "a prompt is neither a text nor a chat"),
        ('{"messages": [{"role": "user", "content": [1]}]}', "a prompt is neither a text nor a chat"),
    ],
)
def test_a_line_that_is_no_prompt_is_named(tmp_path, line, says):
    path = tmp_path / "mine.jsonl"
    path.write_text(f'{{"prompt": "fine"}}\n{line}\n')
    with pytest.raises(ConfigurationError) as caught:
        read_prompts(path)
    assert (caught.value.what, caught.value.where) == (says, f"{path}, line 2")


def test_what_cannot_be_read_is_said(tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        read_prompts(tmp_path / "absent.jsonl")
    assert caught.value.why == "No such file or directory"
    (tmp_path / "one.jsonl").write_text('{"prompt": "x"}\n')
    with pytest.raises(ConfigurationError, match="too few prompts"):
        read_prompts(tmp_path / "one.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"prompt": "gr\xf6\xdfer"}\n')
    with pytest.raises(ConfigurationError) as caught:
        read_prompts(tmp_path / "latin.jsonl")
    assert caught.value.why == "it is not UTF-8 text"


def test_a_pin_holds():
    prompts = builtin_prompts()
    check_pin(prompts, None)
    check_pin(prompts, SHA256)
    with pytest.raises(CheckFailedError, match="not those that prompts_sha256 pins") as caught:
        check_pin(prompts, "0" * 64)
    assert SHA256 in caught.value.why
