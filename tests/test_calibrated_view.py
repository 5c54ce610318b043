"""From a base checkpoint to a served calibrated view, with two commands and the real engine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "standin"))
import harness

from toolkit.planning.worker_report import layer_key
from toolkit.views.scales.names import layer_and_kind
from toolkit.views.scales.pack import read_pack

PROMPTS = (
    {"messages": [{"role": "user", "content": "Name three rivers of Europe."}]},
    {"messages": [{"role": "user", "content": "Why is the sky blue?"}]},
    {"prompt": "def area(radius):\n    return 3.14159 * radius ** 2\n"},
    {"prompt": "Der Zug nach Wien fährt um 7:45 von Gleis 12."},
)
pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


def run(verb, tmp_path, *arguments):
    options = ["+recipe=smollm2_cpu", "limits.max_model_len=256", f"server.port={harness.unused_port()}"]
    command = [
        sys.executable,
        "-m",
        f"toolkit.{verb}",
        *options,
        f"runs={tmp_path / 'runs'}",
        "output=json",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_calibrate_then_serve(tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(f"{json.dumps(prompt)}\n" for prompt in PROMPTS))
    folder = tmp_path / "scales"
    report = run("calibrate", tmp_path, f"folder={folder}", f"prompts={prompts}", "max_tokens=4")
    assert (report["prompts"]["prompts"], report["prompts"]["cut"]) == (4, 0)
    pack = read_pack(folder)
    assert len(pack.scales) == 60
    assert all(0.1 < maximum < 100 for maximum in pack.maxima.values()), "of the order of a trained model's"
    heads, size = 3, 64
    stored = report["prompts"]["prompt_tokens"] + report["prompts"]["generated_tokens"] - 4  # the last is not stored
    for entry in report["scales"]:
        assert 0 <= entry["count"] - heads * size * stored <= 4 * heads * size, "each token once; a step may overrun"

    document = run("serve", tmp_path, f"overlay.path={folder}", f"views.root={tmp_path / 'views'}", "until=answered")
    assert "Paris" in document["answer"]
    receipt = json.loads(Path(document["receipt"]).read_text())
    (worker,) = receipt["workers"]
    assert worker["unused_scales"] == []
    used = {}
    for layer in worker["layers"]:
        assert layer["kv_dtype"] == "fp8_e4m3"
        for kind in "kv":
            (scale,) = layer[f"{kind}_scale"]
            assert scale == layer[f"{kind}_scale_host"]
            used[layer_key(layer["name"]), kind] = scale
    assert used == {(layer_key(name), layer_and_kind(name)[1]): value for name, value in pack.scales.items()}
