"""The server's HTTP interface, as the checks use it: token ids in, token ids out."""

import json
import urllib.request

TIMEOUT_S = 300


class Client:
    """Requests to one server."""

    def __init__(self, port, model):
        self._url, self._model = f"http://127.0.0.1:{port}", model

    def complete(self, prompt, tokens=32, **options):
        """Greedy tokens after a prompt (text, or token ids), in order."""
        return self.choice(prompt, tokens, ignore_eos=True, **options)["token_ids"]

    def choice(self, prompt, tokens, **options):
        """The whole greedy answer: token ids, and log-probabilities where they are asked for."""
        body = {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            "return_token_ids": True,
            **options,
        }
        return self._post("/v1/completions", body)["choices"][0]

    def chat(self, question):
        """The text of an answer."""
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": question}],
            "temperature": 0,
            "max_tokens": 32,
        }
        return self._post("/v1/chat/completions", body)["choices"][0]["message"]["content"]

    def abandon(self, prompt):
        """Begin a stream of 2,000 tokens, read its first piece and hang up."""
        body = {"model": self._model, "prompt": prompt, "max_tokens": 2000, "stream": True, "ignore_eos": True}
        with self._open("/v1/completions", body) as answer:
            return answer.readline()

    def metric(self, name):
        """The sum of a counter over its labels."""
        with urllib.request.urlopen(f"{self._url}/metrics", timeout=TIMEOUT_S) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + "{", name + " ")))

    def _post(self, path, body):
        with self._open(path, body) as answer:
            return json.loads(answer.read())

    def _open(self, path, body):
        request = urllib.request.Request(
            self._url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        return urllib.request.urlopen(request, timeout=TIMEOUT_S)
