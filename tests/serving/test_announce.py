"""What is printed can be pasted."""

import json
import shlex

from toolkit.config.schema.verbs import Until
from toolkit.engine.answer import Answer
from toolkit.planning.plan import ServerAddress
from toolkit.serving.announce import curl, ready_text

ANSWER = Answer("Where's Paris?", " In France. ", ("In",), (-0.1,), "stop", 0.1)


def test_the_curl_line_survives_any_question():
    question = 'What\'s "this"; $HOME `id` \\ é?\n'
    words = shlex.split(curl(ServerAddress("127.0.0.1", 8000, "m"), question))
    assert words[:3] == ["curl", "-s", "http://127.0.0.1:8000/v1/chat/completions"]
    assert json.loads(words[-1]) == {"model": "m", "messages": [{"role": "user", "content": question}]}


def test_a_server_on_every_address_is_asked_on_the_loopback():
    assert "http://127.0.0.1:8000/" in curl(ServerAddress("0.0.0.0", 8000, "m"), "q")
    assert "http://[::1]:8000/" in curl(ServerAddress("::", 8000, "m"), "q")


def test_the_key_is_named_by_its_file():
    words = curl(ServerAddress("127.0.0.1", 8000, "m", "/my keys/k"), "q")
    assert """-H "Authorization: Bearer $(head -n 1 '/my keys/k')\"""" in words


def test_each_until_prints_what_was_asked_for():
    address = ServerAddress("127.0.0.1", 8000, "m")
    assert ready_text(ANSWER, address, Until.ready) == "m is served at http://127.0.0.1:8000/v1"
    assert ready_text(ANSWER, address, Until.answered).splitlines()[:2] == [
        "question: Where's Paris?",
        "answer:   In France.",
    ]
    assert ready_text(ANSWER, address, Until.stopped).splitlines()[-1] == "Ctrl-C stops it"
