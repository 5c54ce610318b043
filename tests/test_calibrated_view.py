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


def run(verb, tmp_path, *arguments, recipe="smollm2_cpu"):
    options = [f"+recipe={recipe}", "limits.max_model_len=256", f"server.port={harness.unused_port()}"]
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


def test_two_ranks_measure_what_one_does_and_use_the_same_scales(tmp_path):
    """Each process has one of the two heads; vLLM would bind each rank to a NUMA node of its own."""
    model = ("checkpoint.declared.num_key_value_heads=2", "+engine.environment.VLLM_CPU_OMP_THREADS_BIND=nobind")
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(f"{json.dumps(prompt)}\n" for prompt in PROMPTS))
    reports = {}
    for ranks in (1, 2):
        shared = (*model, f"limits.tensor_parallel={ranks}")
        taken = (f"folder={tmp_path / str(ranks)}", f"prompts={prompts}", "max_tokens=4")
        reports[ranks] = run("calibrate", tmp_path, *shared, *taken, recipe="tiny_random_cpu")
    for one, two in zip(reports[1]["scales"], reports[2]["scales"], strict=True):
        assert two["max_abs"] == pytest.approx(one["max_abs"], rel=0.02), "sums over ranks round otherwise"
        assert two["count"] == one["count"]
    folder = next((tmp_path / "runs").glob(f"{reports[2]['run']['name']}/measurements"))
    ranks_seen = {path.name.split("-pid")[0] for path in folder.glob("*-rank*.json")}
    assert ranks_seen == {f"{half}-half-rank{rank}" for half in ("first", "second") for rank in (0, 1)}
    heads = {}
    for path in folder.glob("first-half-rank*.json"):
        for tally in json.loads(path.read_text())["tallies"]:
            heads.setdefault((tally["layer"], tally["kind"]), []).append(tally["largest"])
    assert any(first != second for first, second in heads.values()), "the ranks store different heads"

    served = ("kv=fp8_e4m3", f"overlay.path={tmp_path / '2'}", f"views.root={tmp_path / 'views'}", "until=ready")
    document = run("serve", tmp_path, *model, "limits.tensor_parallel=2", *served, recipe="tiny_random_cpu")
    workers = json.loads(Path(document["receipt"]).read_text())["workers"]
    assert [worker["rank"] for worker in workers] == [0, 1]
    scales = read_pack(tmp_path / "2").scales
    for worker in workers:
        used = {
            f"model.layers.{layer_key(layer['name']).number}.self_attn.{kind}_scale": layer[f"{kind}_scale_host"]
            for layer in worker["layers"]
            for kind in "kv"
        }
        assert used == scales
