"""What every verb's command promises: sweeps, Hydra's own services, exit codes, and nothing left behind."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent / "config"))
import cli

from toolkit import __version__, jobs, verb
from toolkit.config.composed import Composed
from toolkit.config.schema.verbs import PlanConfig
from toolkit.errors import CheckFailedError, RefusedError

TINY = "+recipe=tiny_random_cpu"
VERBS = sorted(path.stem for path in (cli.REPOSITORY / "conf").glob("*.yaml") if path.stem != "deployment")


def plans_of(text: str) -> list[dict]:
    """The plans of a sweep's one document."""
    return json.loads(text)["plans"]


def everything_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A user whose home, temporary files and working folder are empty."""
    for name in ("home", "tmp", "work"):
        (tmp_path / name).mkdir()
    inside = {"HOME": "home", "TMPDIR": "tmp"} | {
        f"XDG_{kind}_HOME": f"home/{kind.lower()}" for kind in ("CACHE", "CONFIG", "DATA", "STATE")
    }
    return {name: str(tmp_path / folder) for name, folder in inside.items()}


WITHOUT_LIBRARIES = """
import runpy, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("hydra", "omegaconf", "antlr4", "yaml", "platformdirs", "rich"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
sys.argv = [sys.argv[1]]
runpy.run_module(f"toolkit.{sys.argv[0]}", run_name="__main__")
"""


@pytest.mark.parametrize("name", VERBS)
def test_a_python_outside_the_environment_is_told_so(name):
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARIES, name], capture_output=True, text=True, check=False, cwd=cli.REPOSITORY
    )
    assert result.returncode == 2
    assert result.stderr.startswith("error: this Python has no "), result.stderr
    assert f"  fix: ./quickstart {name} ..., or `. .venv/bin/activate` first\n" in result.stderr


READ_ONLY = [
    (["plan", TINY], 0),
    (["plan", TINY, "output=json"], 0),
    (["plan", "+recipe=dcp2_e4m3"], 0),
    (["plan", TINY, "-m", "kv=float16,fp8_e4m3"], 0),
    (["plan", TINY, "-m", "+limits.tpyo=1,2"], 2),
    (["plan", TINY, "-m", "kv=float16,fp9"], 2),
    (["plan", "--cfg", "job"], 0),
    (["plan", "--cfg", "all", "--resolve"], 0),
    (["plan", "--info", "defaults"], 0),
    (["plan", "--info", "all"], 0),
    (["plan", "--help"], 0),
    (["plan", "--hydra-help"], 0),
    (["plan", "-sc", "install=bash"], 0),
    (["plan", "limits.max_modle_len=1"], 2),
    (["plan", "hydra.run.dir=here", "hydra.output_subdir=there", "hydra/job_logging=default"], 0),
    (["serve", TINY, "dry_run=true", cli.on_unused_port()], 0),
    (["serve", "+recipe=dcp2_e4m3"], 3),
    (["status"], 0),
    (["verify"], 0),
    (["gc", "dry_run=true"], 0),
]


@pytest.mark.parametrize(
    ("arguments", "code"),
    READ_ONLY,
    ids=[" ".join(word for word in words if "port" not in word) for words, _ in READ_ONLY],
)
def test_nothing_is_left_behind(tmp_path, home, arguments, code):
    before = everything_in(tmp_path)
    result = cli.call(*arguments, cwd=tmp_path / "work", **home)
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    assert everything_in(tmp_path) == before


def test_an_interrupted_sweep_ends_at_once_and_leaves_nothing(tmp_path, home):
    before = everything_in(tmp_path)
    seats = ",".join(map(str, range(1, 40)))
    listens = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # which a background job of a shell does not
    begin = f"import runpy, signal; {listens}; runpy.run_module('toolkit.serve', run_name='__main__')"
    sweep = subprocess.Popen(
        [sys.executable, "-c", begin, TINY, "dry_run=true", "-m", f"limits.max_num_seqs={seats}", "output=json"],
        cwd=tmp_path / "work",
        env={**os.environ, **home, "PYTHONPATH": str(cli.REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert sweep.stdout.readline() == b"{\n"  # the first job has begun to print
    sweep.send_signal(signal.SIGINT)
    _, err = sweep.communicate(timeout=60)
    assert sweep.returncode == 130
    assert b"Traceback" not in err
    assert everything_in(tmp_path) == before


INTERRUPTED = """
import os, runpy, signal, sys
class Early:
    def find_spec(self, name, *_):
        if name == "toolkit.config.composed":  # among the first things that a verb imports
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Early())
runpy.run_module(sys.argv[1], run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_is_interrupted_while_it_imports_ends_quietly(verb):
    command = [sys.executable, "-c", INTERRUPTED, f"toolkit.{verb}"]
    result = subprocess.run(command, cwd=cli.REPOSITORY, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (-signal.SIGINT, "", "")


class TestSweeps:
    @pytest.mark.parametrize("arguments", [["-m", "kv=float16,fp8_e4m3", TINY], [TINY, "kv=float16,fp8_e4m3", "-m"]])
    def test_every_combination_is_planned(self, arguments):
        result = cli.call("plan", *arguments, "output=json")
        plans = plans_of(result.stdout)
        assert result.returncode == 0, result.stderr
        assert [plan["origins"]["kv.dtype"].rpartition("/")[2] for plan in plans] == ["float16.yaml", "fp8_e4m3.yaml"]
        assert [plan["argv"][plan["argv"].index("--kv-cache-dtype") + 1] for plan in plans] == ["auto", "fp8_e4m3"]

    def test_recipes_and_numbered_choices_are_swept(self):
        result = cli.call("plan", "-m", "+recipe=dcp2_e4m3,qwen38_27b_nvfp4", "dcp=1,2", "output=json")
        plans = plans_of(result.stdout)
        assert [plan["recipe"] for plan in plans] == ["dcp2_e4m3"] * 2 + ["qwen38_27b_nvfp4"] * 2
        assert ["--decode-context-parallel-size" in plan["argv"] for plan in plans] == [False, True] * 2

    def test_a_job_that_fails_does_not_hide_the_others(self):
        result = cli.call("plan", TINY, "-m", "checkpoint.source.kind=local,random", "output=json")
        assert result.returncode == 2
        document = json.loads(result.stdout)
        assert [plan["overrides"]["checkpoint.source.kind"] for plan in document["plans"]] == ["random"]
        (failed,) = document["failed"]
        assert (failed["overrides"]["checkpoint.source.kind"], failed["exit_code"]) == ("local", 2)
        assert failed["error"]["what"] == "checkpoint.source.path is not set"
        assert cli.first_line(result.stderr) == "error: checkpoint.source.path is not set"
        assert "Traceback" not in result.stderr

    @pytest.mark.parametrize(
        ("swept", "good", "what"),
        [
            ("kv=float16,fp9", "float16", "there is no kv named 'fp9'"),
            ("limits.tensor_parallel=1,x", "1", "wrong value in 'limits.tensor_parallel=x'"),
            ("limits.max_num_seqs=x,1,y", "1", "wrong value in 'limits.max_num_seqs=x'"),
        ],
    )
    def test_a_wrong_value_is_told_and_hides_no_plan(self, swept, good, what):
        result = cli.call("plan", TINY, cli.on_unused_port(), "-m", swept)
        assert result.returncode == 2
        assert cli.first_line(result.stderr) == f"error: {what}"
        header, *rows = result.stdout.splitlines()
        assert header.split()[0] == swept.partition("=")[0]
        assert [row.split()[0] for row in rows if row.endswith("can be served")] == [good]
        assert any(row.endswith(f"error: {what}") for row in rows)
        assert len(rows) == len(swept.split(","))

    def test_a_mistake_of_all_is_told_once(self):
        result = cli.call("plan", TINY, "-m", "limits.max_num_seqs=1,2,3", "limits.tpyo=1")
        assert result.returncode == 2
        assert result.stderr.count("error: unknown option 'limits.tpyo'") == 1
        assert result.stdout.count("error: unknown option 'limits.tpyo'") == 3

    def test_a_verb_that_acts_does_nothing_before_every_job_is_right(self):
        result = cli.call("serve", TINY, "dry_run=true", "-m", "kv=float16,fp9")
        assert (result.returncode, result.stdout) == (2, "")
        assert cli.first_line(result.stderr) == "error: there is no kv named 'fp9'"

    def test_files_of_a_group_are_swept_by_a_pattern(self):
        result = cli.call("plan", TINY, "-m", "kv=glob(fp8*)", "output=json")
        assert result.returncode == 0, result.stderr
        assert [plan["overrides"]["kv"] for plan in plans_of(result.stdout)] == ["fp8_e4m3", "fp8_e5m2"]

    def test_as_text_it_is_one_table(self):
        swept = ["-m", "kv=float16,fp8_e4m3", "limits.max_model_len=0,1024"]
        result = cli.call("plan", TINY, cli.on_unused_port(), *swept)
        header, *rows = (line.split() for line in result.stdout.splitlines() if line)
        assert result.returncode == 0, result.stderr
        assert header == [
            *("kv", "limits.max_model_len", "block", "tokens", "full", "requests", "GiB", "a", "rank", "verdict")
        ]
        assert [row[:2] for row in rows] == [[kv, length] for kv in ("float16", "fp8_e4m3") for length in ("0", "1024")]
        assert [row[-1] for row in rows] == ["sizes-positive", "served"] * 2
        assert rows[1][3] == "131,072"
        assert rows[3][3] == "262,144", "half the bytes hold twice the tokens"

    @pytest.mark.parametrize("option", ["compare=dcp2_e4m3", "fit=true"])
    def test_what_belongs_to_one_plan_is_refused_in_a_sweep(self, option):
        result = cli.call("plan", TINY, "-m", "kv=float16,fp8_e4m3", option)
        assert result.returncode == 2
        name = option.partition("=")[0]
        assert cli.first_line(result.stderr) == f"error: {name} belongs to one plan, and -m makes several"

    def test_each_job_has_its_own_origins(self):
        result = cli.call("plan", TINY, "-m", "limits.max_num_seqs=1,2", "output=json")
        origins = [plan["origins"]["limits.max_num_seqs"] for plan in plans_of(result.stdout)]
        assert origins == ["command line: limits.max_num_seqs=1", "command line: limits.max_num_seqs=2"]

    def run(self, monkeypatch, task) -> int:
        monkeypatch.setattr(sys, "argv", ["toolkit-plan", "-m", "limits.max_num_seqs=1,2,3"])
        return verb.run_verb("plan", PlanConfig, task)

    @pytest.mark.parametrize(("codes", "worst"), [([0, 0, 0], 0), ([0, 3, 0], 3), ([3, 5, 0], 5)])
    def test_the_highest_exit_code_is_the_sweeps(self, monkeypatch, codes, worst):
        left = iter(codes)
        assert self.run(monkeypatch, lambda composed: next(left)) == worst

    def test_a_bug_in_one_job_shows_its_traceback_and_the_others_run(self, monkeypatch, capsys):
        seen = []

        def task(composed: Composed[PlanConfig]) -> int:
            seen.append(composed.config.limits.max_num_seqs)
            if seen[-1] == 2:
                raise ZeroDivisionError("ours")
            return 0

        assert self.run(monkeypatch, task) == jobs.BUG
        assert seen == [1, 2, 3]
        assert "ZeroDivisionError: ours" in capsys.readouterr().err


class TestExitCodes:
    def run(self, monkeypatch, task) -> int:
        monkeypatch.setattr(sys, "argv", ["toolkit-plan"])
        return verb.run_verb("plan", PlanConfig, task)

    @pytest.mark.parametrize(("error", "code"), [(RefusedError("no", why="because"), 3), (CheckFailedError("no"), 5)])
    def test_an_error_is_printed_without_a_traceback(self, monkeypatch, capsys, error, code):
        def task(composed: Composed[PlanConfig]) -> int:
            raise error

        assert self.run(monkeypatch, task) == code
        assert capsys.readouterr().err == f"error: {error}\n"

    def test_a_bug_is_not_dressed_up_as_a_users_mistake(self, monkeypatch):
        def task(composed: Composed[PlanConfig]) -> int:
            raise ValueError("ours")

        with pytest.raises(ValueError, match="ours"):
            self.run(monkeypatch, task)

    def test_control_c(self, monkeypatch):
        def task(composed: Composed[PlanConfig]) -> int:
            raise KeyboardInterrupt

        assert self.run(monkeypatch, task) == 130


class TestServices:
    def test_cfg_job(self):
        result = cli.call("plan", "+recipe=smollm2_cpu", "--cfg", "job", "limits.max_num_seqs=3")
        values = yaml.safe_load(result.stdout)
        assert (result.returncode, result.stderr) == (0, "")
        assert (values["kv"], values["limits"]["max_num_seqs"]) == ({"dtype": "fp8_e4m3"}, 3)
        assert "hydra" not in values

    def test_info_defaults(self):
        result = cli.call("plan", "+recipe=smollm2_cpu", "--info", "defaults")
        assert result.returncode == 0
        assert "| recipe/smollm2_cpu" in result.stdout

    @pytest.mark.parametrize("name", ["plan", "serve"])
    def test_help(self, name):
        result = cli.call(name, "--help")
        assert (result.returncode, result.stderr) == (0, "")
        assert cli.first_line(result.stdout) == f"toolkit-{name} [+recipe=NAME] [GROUP=NAME] [OPTION=VALUE] ..."
        assert "kv: float16, fp8_e4m3, fp8_e5m2\n" in result.stdout
        assert "output: text\n" in result.stdout

    @pytest.mark.parametrize("name", ["status", "stop", "gc", "verify", "build", "check_wheel", "report"])
    def test_help_of_a_verb_that_takes_no_recipe(self, name):
        result = cli.call(name, "--help")
        assert (result.returncode, result.stderr) == (0, "")
        assert cli.first_line(result.stdout) == f"toolkit-{name} [OPTION=VALUE] ..."
        assert "recipe" not in result.stdout
        assert "output: text\n" in result.stdout

    @pytest.mark.parametrize("name", VERBS)
    def test_help_says_what_a_verb_does(self, name):
        summary = cli.call(name, "--help").stdout.splitlines()[2]
        said = (cli.REPOSITORY / f"toolkit/{name}.py").read_text(encoding="utf-8").splitlines()[0]
        assert summary
        assert summary.lower() in said.lower()

    @pytest.mark.parametrize("name", ["gc", "stop"])
    def test_a_recipe_for_a_verb_that_takes_none(self, name):
        result = cli.call(name, "+recipe=smollm2_cpu")
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr == (
            f"error: {name} takes no recipe\n  where: +recipe=smollm2_cpu\n"
            f"  fix: leave it out; toolkit-{name} --help lists the options\n"
        )

    def test_version(self):
        result = cli.call("plan", "--version")
        assert (result.returncode, result.stdout, result.stderr) == (0, f"volta-toolkit {__version__}\n", "")

    def test_hydra_help(self):
        result = cli.call("plan", "--hydra-help")
        assert (result.returncode, result.stderr) == (0, "")
        assert cli.first_line(result.stdout) == "Hydra (1.3.8)"

    def test_a_mistake_beside_a_service_is_explained_too(self):
        result = cli.call("plan", "--cfg", "job", "kv=fp8")
        assert (result.returncode, result.stdout) == (2, "")
        assert cli.first_line(result.stderr) == "error: kv=fp8 is ambiguous"

    def test_a_users_folder(self, tmp_path):
        cli.write(
            tmp_path,
            {"recipe/mine.yaml": "# @package _global_\ndefaults: [{override /checkpoint: tiny_random}]\n"},
        )
        for spelling in (["--config-dir", str(tmp_path)], [f"--config-dir={tmp_path}"], ["-cd", str(tmp_path)]):
            result = cli.call("plan", *spelling, "+recipe=mine", "output=json")
            assert json.loads(result.stdout)["recipe"] == "mine", result.stderr
        relative = cli.call("plan", "--config-dir", ".", "+recipe=mine", "output=json", cwd=tmp_path)
        assert json.loads(relative.stdout)["origins"]["checkpoint.name"].endswith("conf/checkpoint/tiny_random.yaml")


class TestCompletion:
    """A console script's completion, with the function that bash itself calls on TAB."""

    def complete(self, tmp_path: Path, line: str) -> list[str]:
        script = tmp_path / "toolkit-plan"
        script.write_text(f"#!{sys.executable}\nfrom toolkit.plan import main\nmain()\n")
        script.chmod(0o755)
        words = line.split(" ")
        program = (
            'eval "$(toolkit-plan -sc install=bash)"\n'
            f"COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_CWORD={len(words) - 1}\n"
            "hydra_bash_completion 2>/dev/null\n"
            'printf "%s\\n" "${COMPREPLY[@]}"\n'
        )
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(cli.REPOSITORY)}
        result = subprocess.run(
            ["bash", "-c", program], capture_output=True, text=True, check=True, env={**os.environ, **path}, timeout=60
        )
        return result.stdout.split()

    @pytest.mark.parametrize(
        ("line", "offered"),
        [
            ("toolkit-plan kv=", ["kv=float16", "kv=fp8_e4m3", "kv=fp8_e5m2"]),
            ("toolkit-plan +recipe=s", ["+recipe=smollm2_cpu", "+recipe=smollm2_v100"]),
            ("toolkit-plan limits.max_n", ["limits.max_num_batched_tokens=", "limits.max_num_seqs="]),
            ("toolkit-plan +recipe=dcp2_e4m3 dcp=", ["dcp=1", "dcp=2"]),
            ("toolkit-plan dcp=2 laun", ["launcher.", "launcher="]),
            ("toolkit-plan kv=nothing limits.block", []),
            ("toolkit-plan --config-d", []),
        ],
    )
    def test_what_bash_offers(self, tmp_path, line, offered):
        assert self.complete(tmp_path, line) == offered

    def test_a_users_recipe_is_offered(self, tmp_path):
        folder = cli.write(tmp_path / "mine", {"recipe/zebra.yaml": "{}"})
        assert self.complete(tmp_path, f"toolkit-plan --config-dir {folder} +recipe=z") == ["+recipe=zebra"]


class TestOutput:
    def plan_into(self, output, *arguments):
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        return subprocess.run(
            [sys.executable, "-m", "toolkit.plan", TINY, *arguments],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=cli.REPOSITORY,
            env=buffered,
        )

    @pytest.mark.parametrize("arguments", [[], ["output=json"], ["--cfg", "job"], ["--help"]])
    def test_a_full_disk_is_an_error_of_the_machine(self, arguments):
        with Path("/dev/full").open("w") as full:
            result = self.plan_into(full, *arguments)
        assert result.returncode == 5
        assert result.stderr == (
            f"error: the output cannot be written\n  where: standard output\n  why: {os.strerror(errno.ENOSPC)}\n"
        )

    @pytest.mark.parametrize("arguments", [[], ["output=json"], ["--cfg", "job"]])
    def test_a_reader_that_has_gone_is_no_traceback(self, arguments):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as gone:
            result = self.plan_into(gone, *arguments)
        assert (result.returncode, result.stderr) == (141, "")

    def test_a_terminal_without_utf_8(self):
        result = cli.call("plan", TINY, "server.host='\u00e9'", PYTHONIOENCODING="ascii")
        assert result.returncode == 0, result.stderr
        assert cli.first_line(result.stdout).endswith(r"at http://\xe9:8000")

    @pytest.mark.parametrize("name", ["plan", "serve", "status"])
    def test_json_is_one_document_and_nothing_else(self, name):
        arguments = {"plan": [TINY], "serve": [TINY, "dry_run=true", cli.on_unused_port()], "status": []}[name]
        result = cli.call(name, *arguments, "output=json")
        assert (result.returncode, result.stderr) == (0, "")
        assert isinstance(json.loads(result.stdout), dict)


def test_a_refused_plan_is_still_printed_and_a_refused_serve_lists_every_finding():
    planned = cli.call("plan", "+recipe=dcp2_e4m3")
    served = cli.call("serve", "+recipe=dcp2_e4m3")
    assert planned.returncode == 0
    assert planned.stdout.splitlines()[-1] == "refused: serve would not start this plan"
    assert served.returncode == 3
    refusals = [line.split()[1] for line in planned.stdout.splitlines() if line.startswith("  refused  ")]
    assert len(refusals) >= 2
    assert all(f"rejected: {rule} (" in served.stderr for rule in refusals)


def test_the_package_itself_names_its_verbs():
    result = subprocess.run([sys.executable, "-m", "toolkit"], check=False, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert sorted(result.stderr.splitlines()[1].removeprefix("  verbs: ").split(", ")) == VERBS
