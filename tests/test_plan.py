"""`plan` as a process: its documents, its cost in imports, and that it is the same wherever it is started."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "config"))
import cli

from toolkit.checkpoint.local import read_facts
from toolkit.checkpoint.random_model import random_config
from toolkit.config.recipe_name import RecipeName
from toolkit.config.search_path import shipped_conf

RECIPES = sorted(path.stem for path in (shipped_conf() / "recipe").glob("*.yaml"))
HEAVY = (
    "torch",
    "transformers",
    "vllm",
    "httpx",
    "rich",
    "numpy",
    "gguf",
    "huggingface_hub",
    "hydra",
    "asyncio",
    "ssl",
)


def imported_by(code: str) -> set[str]:
    printed = subprocess.check_output(
        [sys.executable, "-c", f"{code}\nimport sys; print('\\n'.join(sys.modules))"], text=True, cwd=cli.REPOSITORY
    )
    return {name.partition(".")[0] for name in printed.split()}


def test_importing_the_verb_imports_nothing_heavy():
    assert imported_by("import toolkit.plan") & set(HEAVY) == set()


def test_planning_imports_neither_the_engine_nor_a_numeric_library():
    run = (
        "import sys, io, contextlib; sys.argv = ['plan', '+recipe=dcp2_e4m3', 'output=json']\n"
        "from toolkit import plan\nfrom toolkit.config.schema.verbs import PlanConfig\n"
        "with contextlib.redirect_stdout(io.StringIO()): plan.run_verb('plan', PlanConfig, plan.run)"
    )
    heavy = {"torch", "transformers", "vllm", "numpy", "gguf", "httpx", "huggingface_hub", "rich", "asyncio"}
    assert imported_by(run) & heavy == set()


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_recipe_plans_here_without_a_gpu(recipe):
    result = cli.call("plan", f"+recipe={recipe}", "output=json", "server.port=18432")
    assert (result.returncode, result.stderr) == (0, "")
    plan = json.loads(result.stdout)
    assert (plan["recipe"], plan["schema"]) == (recipe, 1)
    assert plan["capacity"]["bytes_per_block"] > 0
    assert plan["engine"] == ("cpu" if RecipeName.parse(recipe).engine == "cpu" else "v100")
    refused = {finding["rule"] for finding in plan["findings"] if finding["severity"] == "refuse"}
    assert ("no-gpu" in refused) == (plan["engine"] == "v100") or Path("/dev/nvidiactl").exists()


def test_it_is_the_same_wherever_it_is_started(tmp_path):
    here = cli.call("plan", "+recipe=tiny_random_cpu", "output=json", "server.port=18432")
    there = cli.call("plan", "+recipe=tiny_random_cpu", "output=json", "server.port=18432", cwd=tmp_path)
    assert json.loads(here.stdout) == json.loads(there.stdout)


def test_a_local_checkpoint_is_planned_from_its_files(tmp_path):
    config = random_config({"max_position_embeddings": 100})
    header = json.dumps({"model.norm.weight": {"dtype": "F16", "shape": [128], "data_offsets": [0, 256]}}).encode()
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(256))
    result = cli.call(
        "plan",
        "+recipe=tiny_random_cpu",
        "checkpoint.source.kind=local",
        f"checkpoint.source.path={tmp_path}",
        "output=json",
    )
    plan = json.loads(result.stdout)
    assert plan["view"]["path"] == str(tmp_path)
    assert plan["view"]["files"] == ["config.json", "model.safetensors"]
    said = {finding["rule"]: finding for finding in plan["findings"]}
    assert said["context-too-long"]["message"].endswith("the model has positions for 100")
    assert "max_position_embeddings is declared as 2048, config.json has 100" in said["declared-differs"]["message"]


def test_a_draft_in_a_folder_is_planned_from_its_files(tmp_path):
    shapes = {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": 5}
    config = {
        "architectures": ["DFlash2DraftModel"],
        "model_type": "qwen3",
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "vocab_size": 248320,
        "dflash_config": {"use_swa": True, "swa_window_size": 2048},
        **shapes,
    }

    def planned(**changes):
        header = json.dumps({"a.weight": {"dtype": "F16", "shape": [64, 8], "data_offsets": [0, 1024]}}).encode()
        (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
        (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(1024))
        arguments = ("+recipe=qwen38_27b_nvfp4_dflash2", f"speculative.draft_path={tmp_path}", "output=json")
        return json.loads(cli.call("plan", *arguments).stdout)

    published = json.loads(cli.call("plan", "+recipe=qwen38_27b_nvfp4_dflash2", "output=json").stdout)
    assert planned()["capacity"] == published["capacity"], "the published draft's shapes are what conf/ describes"
    assert planned()["memory"]["draft model"] == 256
    assert planned(num_hidden_layers=20)["capacity"] != published["capacity"]


def test_headers_are_read_and_weights_never(tmp_path):
    header = json.dumps({"a.weight": {"dtype": "U8", "shape": [10**11], "data_offsets": [0, 10**11]}}).encode()
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 8}))
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 10**11)  # a hole of 100 GB
    before = bytes_read()
    facts = read_facts(tmp_path, "sparse")
    assert facts.weight_bytes == 10**11
    assert 0 < bytes_read() - before < 10**5


def bytes_read() -> int:
    """Bytes that this process has taken from files."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_broken_checkpoint_is_an_error_of_the_artifact(tmp_path):
    (tmp_path / "config.json").write_text("{")
    result = cli.call("plan", "checkpoint.source.kind=local", f"checkpoint.source.path={tmp_path}")
    assert (result.returncode, result.stdout) == (5, "")
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr


def test_a_variable_of_the_fork_is_taken_with_a_notice():
    arguments = ("+recipe=dcp2_e4m3", "output=json")
    result = cli.call("plan", *arguments, VLLM_FLASH_V100_DECODE_USE_XQA="0")
    plan = json.loads(result.stdout)
    switch = next(switch for switch in plan["switches"] if switch["name"] == "decode_xqa")
    assert (switch["value"], switch["source"]) == (False, "environment")
    assert "switch-from-environment" in {finding["rule"] for finding in plan["findings"]}


def test_an_installed_package_finds_its_configuration_inside_itself(tmp_path):
    package = tmp_path / "toolkit"
    (package / "config").mkdir(parents=True)
    (package / "conf").mkdir()
    source = (cli.REPOSITORY / "toolkit/config/search_path.py").read_text(encoding="utf-8")
    (package / "config/search_path.py").write_text(source)
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['shipped_conf']())"
    printed = subprocess.check_output(
        [sys.executable, "-c", code, str(package / "config/search_path.py")], text=True, env={**os.environ}
    )
    assert printed.strip() == str(package / "conf")


class TestCompare:
    ARGUMENTS = ("+recipe=dcp2_e4m3", "limits.kv_cache_memory_bytes=4294967296")

    def test_what_differs_and_what_it_buys(self):
        result = cli.call("plan", *self.ARGUMENTS, "compare=qwen38_27b_nvfp4", "output=json")
        assert (result.returncode, result.stderr) == (0, "")
        document = json.loads(result.stdout)
        alone = json.loads(cli.call("plan", *self.ARGUMENTS, "output=json").stdout)
        other = json.loads(cli.call("plan", "+recipe=qwen38_27b_nvfp4", self.ARGUMENTS[1], "output=json").stdout)
        assert {key: document[key] for key in ("capacity", "memory", "argv")} == {
            key: alone[key] for key in ("capacity", "memory", "argv")
        }
        found = document["comparison"]
        assert (found["this"], found["other"]) == ("dcp2_e4m3", "qwen38_27b_nvfp4")
        assert {"name": "kv.dtype", "this": "fp8_e4m3", "other": "float16"} in found["options"]
        for section, plans in (("capacity", "capacity"), ("memory", "memory")):
            shown = {item["name"]: (item["this"], item["other"]) for item in found[section]}
            shown.pop("together", None)
            names = dict.fromkeys([*alone[plans], *other[plans]])
            both = {name: (alone[plans].get(name), other[plans].get(name)) for name in names}
            assert shown == {name: pair for name, pair in both.items() if pair[0] != pair[1]}

    def test_as_text(self):
        lines = cli.call("plan", *self.ARGUMENTS, "compare=qwen38_27b_nvfp4").stdout.splitlines()
        assert lines[0] == "dcp2_e4m3 beside qwen38_27b_nvfp4"
        said = [line.split() for line in lines]
        assert ["dcp.size", "2", "1"] in said
        assert ["tokens", "795,607", "256,762", "+209.9%"] in said
        assert any(line[:1] == ["together"] for line in said)
        assert ["route-dcp", "refused", "-"] in said  # in the words of a plan's findings

    def test_a_recipe_beside_itself(self):
        assert "nothing differs" in cli.call("plan", "+recipe=smollm2_cpu", "compare=smollm2_cpu").stdout

    @pytest.mark.parametrize(
        ("typed", "fix"),
        [
            ("smollm3_cpu", "did you mean compare=smollm2_cpu?"),
            ("nosuch", "choose one of them, such as compare=dcp2_e4m3"),
            ("'a,b'", "choose one of them, such as compare=dcp2_e4m3"),
            ('"a\'b c"', "choose one of them, such as compare=dcp2_e4m3"),
            ("../kv/float16", "choose one of them, such as compare=dcp2_e4m3"),
            ("", "choose one of them, such as compare=dcp2_e4m3"),
        ],
        ids=str,
    )
    def test_a_recipe_that_is_not_there_is_blamed_on_the_option_that_named_it(self, typed, fix):
        result = cli.call("plan", "+recipe=smollm2_cpu", f"compare={typed}")
        assert (result.returncode, result.stdout) == (2, "")
        named = typed.strip("'\"")
        what, where, why, mend = result.stderr.splitlines()
        assert what == f"error: there is no recipe named '{named}'"
        assert (where, mend) == (f"  where: compare={named}", f"  fix: {fix}")
        assert all(recipe in why for recipe in RECIPES)

    def test_what_is_wrong_inside_the_other_recipe_is_told_with_the_option(self, tmp_path):
        text = "# @package _global_\ndefaults: [{override /checkpoint: smollm2}, {override /kv: fp9}]\n"
        cli.write(tmp_path, {"recipe/broken.yaml": text})
        result = cli.call("plan", "--config-dir", str(tmp_path), "+recipe=smollm2_cpu", "compare=broken")
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.splitlines()[1] == "  where: kv=fp9, with compare=broken"


class TestFit:
    SMALL = ("+recipe=smollm2_cpu", "limits.kv_cache_memory_bytes=2000000", "server.port=18432")

    def test_each_proposal_can_be_typed_and_then_fits(self):
        document = json.loads(cli.call("plan", *self.SMALL, "fit=true", "output=json").stdout)
        assert document["fit"]["needed"]
        for proposal in document["fit"]["proposals"]:
            typed = json.loads(cli.call("plan", *self.SMALL, *proposal["overrides"], "output=json").stdout)
            assert typed["capacity"] == proposal["capacity"]
            assert [found["rule"] for found in typed["findings"] if found["severity"] == "refuse"] == []
        assert document["fit"]["proposals"] != []

    def test_as_text_the_proposals_come_last(self):
        lines = cli.call("plan", *self.SMALL, "fit=true").stdout.splitlines()
        begin = lines.index("what would make it fit")
        assert lines[begin + 1] == "  limits.kv_cache_memory_bytes=25067520"
        assert lines[begin + 2].startswith(
            "      costs memory for anything else; then 2,176 tokens, 1.06 full requests"
        )

    def test_a_plan_that_fits_says_so(self):
        said = cli.call("plan", "+recipe=smollm2_cpu", "fit=true").stdout
        assert "it fits already" in said


class TestPage:
    def test_it_is_printed_or_written_where_it_is_asked_for(self, tmp_path):
        arguments = ("+recipe=smollm2_cpu", "server.port=18432")
        printed = cli.call("plan", *arguments, "output=html")
        assert (printed.returncode, printed.stderr) == (0, "")
        assert printed.stdout.startswith("<!DOCTYPE html>\n<html")
        beside = cli.call("plan", *arguments, "output=json", f"html={tmp_path / 'plan.html'}", cwd=tmp_path)
        assert json.loads(beside.stdout)["recipe"] == "smollm2_cpu"
        assert [path.name for path in tmp_path.iterdir()] == ["plan.html"]
        written = (tmp_path / "plan.html").read_text()
        assert "<h1>smollm2_cpu: smollm2</h1>" in written

    def test_a_file_that_cannot_be_written(self, tmp_path):
        notes = tmp_path / "notes.md"
        notes.write_text("mine")
        for target in (tmp_path, tmp_path / "none" / "plan.html", notes):
            result = cli.call("plan", "+recipe=smollm2_cpu", f"html={target}", cwd=tmp_path)
            assert (result.returncode, result.stdout) == (2, "")
            what, where, why, fix = result.stderr.splitlines()
            assert (what, where) == ("error: the page cannot be written", f"  where: html={target}")
            assert why.startswith("  why: ")
            assert fix in ("  fix: html=plan.html", f"  fix: html={tmp_path}/plan.html")
        assert notes.read_text() == "mine"

    def test_what_was_asked_for_besides_is_on_the_page(self):
        arguments = ("+recipe=smollm2_cpu", "limits.kv_cache_memory_bytes=2000000", "server.port=18432", "output=html")
        alone = cli.call("plan", *arguments).stdout
        page = cli.call("plan", *arguments, "fit=true", "compare=tiny_random_cpu").stdout
        for title in ("beside tiny_random_cpu", "what would make it fit"):
            assert f"<h2>{title}</h2>" in page
            assert title not in alone
        assert "<code>limits.kv_cache_memory_bytes=25067520</code>" in page
        assert "<td>checkpoint.name</td><td>smollm2</td><td>tiny-random</td>" in page

    @pytest.mark.parametrize("option", ["output=html", "html=plan.html"])
    def test_a_sweep_has_no_page(self, tmp_path, option):
        result = cli.call("plan", "+recipe=smollm2_cpu", "-m", "limits.max_num_seqs=1,2", option, cwd=tmp_path)
        assert result.returncode == 2
        assert "belongs to one plan, and -m makes several" in result.stderr
        assert list(tmp_path.iterdir()) == []
