"""The verb as a user meets it; the stand-in plays an engine whose workers measure."""

import json
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from toolkit.calibration.builtin import SHA256
from toolkit.views.scales.float32 import scale_of
from toolkit.views.scales.pack import read_pack

sys.path.insert(0, str(Path(__file__).parent / "standin"))
sys.path.insert(0, str(Path(__file__).parent / "calibration"))
import harness
from measured import layer, measurement, tally

TINY = "+recipe=tiny_random_cpu"
LAYERS = [(0, (1.0, -9.0), (0.5,)), (1, (3.0,), (4.0,))]


def measured(layers=LAYERS):
    parts = (tally(layer(n), kind, *values) for n, k, v in layers for kind, values in (("k", k), ("v", v)))
    return measurement(*parts).to_data()


class Calibrate:
    """One `python -m toolkit.calibrate`."""

    def __init__(self, folder: Path, *arguments: str, **behaviour: object) -> None:
        self.runs, self.pack = folder / "runs", folder / "pack"
        self.port = harness.unused_port()
        command = [
            *(sys.executable, "-m", "toolkit.calibrate", TINY, f"engine.python={harness.INTERPRETER}"),
            f"+engine.environment.STANDIN={harness.behave(folder, **behaviour)}",
            f"+engine.environment.STANDIN_PYTHON={sys.executable}",
            *(f"server.port={self.port}", f"runs={self.runs}", f"folder={self.pack}", *arguments),
        ]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)

    @property
    def run(self) -> Path:
        return next(iter(self.runs.iterdir()))

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=100)
        return self.process.returncode, out, err


@pytest.fixture
def calibrate(tmp_path):
    started: list[Calibrate] = []

    def begin(*arguments: str, **behaviour: object) -> Calibrate:
        started.append(Calibrate(tmp_path, *arguments, **behaviour))
        return started[-1]

    yield begin
    for one in started:
        harness.end(one.process, one.runs)


def test_a_pack_a_report_and_a_picture(calibrate):
    one = calibrate(measure=measured())
    code, out, err = one.end()
    assert (code, err.count("Traceback")) == (0, 0), err
    assert "measuring keys and values of the prompts (31 kB)\n" in err
    assert all(int(percent) <= 100 for percent in re.findall(r"(\d+) %", err))
    pack = read_pack(one.pack)
    maxima = {f"model.layers.{n}.self_attn.{kind}_scale": v for (n, kind), v in {(0, "k"): 9, (0, "v"): 0.5}.items()}
    assert {name: pack.scales[name] for name in maxima} == {name: scale_of(value) for name, value in maxima.items()}
    assert pack.maxima["model.layers.1.self_attn.v_scale"] == 4.0
    report = json.loads((one.pack / "calibration.json").read_text())
    assert (report["prompts"]["sha256"], report["run"]["name"]) == (SHA256, one.run.name)
    assert report["prompts"]["prompt_tokens"] == 5 * report["prompts"]["prompts"]
    assert report["base_index_sha256"] == pack.base_index_sha256
    marks = [item for item in ET.parse(one.pack / "calibration.svg").iter() if item.tag.endswith("circle")]
    assert len(marks) == 12 + 2 * 12, "a mark in each series' legend, and one a layer"
    assert {oct(path.stat().st_mode & 0o777) for path in one.pack.iterdir()} == {"0o644"}
    lines = out.splitlines()
    assert lines[0] == str(one.pack)
    assert "  largest K: 9, scale 0.0200893, model.layers.0.self_attn.k_scale" in lines
    nothing = "0.000% of them with fewer than 4 bits, 0.000% of them become zero, 0.000% are clipped"
    keys = lines.index(f"  keys as E4M3: {nothing}, codes up to 448 of 448")
    assert lines[keys + 1] == f"  with scales of 1: {nothing}, codes up to 3 of 448"
    assert report["codes"]["v"]["unit"] == {"largest_code": 0.5, "saturated": 0.0, "subnormal": 0.0, "lost": 0.0}
    assert lines[-1].startswith("serve with them: python -m toolkit.serve +recipe=tiny_random_cpu ")
    assert lines[-1].endswith(f" kv=fp8_e4m3 overlay.path={one.pack}")
    assert harness.marked(one.run) == []


def test_the_engine_is_started_for_measuring(calibrate):
    one = calibrate("kv=fp8_e4m3", measure=measured())
    code, out, err = one.end()
    assert code == 0, err
    argv = json.loads((one.run / "receipt.json").read_text())["argv"]
    told = json.loads(argv[argv.index("--additional-config") + 1])["volta"]
    assert told["measurements"] == "measurements"
    assert argv[argv.index("--kv-cache-dtype") + 1] == "auto"
    assert "--no-enable-prefix-caching" in argv
    assert "--enforce-eager" in argv
    assert out.splitlines()[-1].count("kv=") == 1


def test_json_is_one_document(calibrate):
    code, out, err = calibrate("output=json", measure=measured()).end()
    document = json.loads(out)
    assert code == 0, err
    assert [entry["max_abs"] for entry in document["scales"]] == [9.0, 0.5, 3.0, 4.0]
    assert document["stability"]["largest_ratio"] == 1.0


def test_what_is_not_finite_makes_no_pack(calibrate):
    one = calibrate(measure=measured([LAYERS[0], (1, (float("inf"), 1.0), (1.0,))]))
    code, out, err = one.end()
    assert (code, out) == (5, "")
    assert "error: model.layers.1.self_attn.k_scale: 2 of 4 values are infinite or NaN\n" in err
    assert not one.pack.exists()


def test_a_layer_that_was_not_measured_makes_no_pack(calibrate):
    one = calibrate(measure=measured(LAYERS[:1]))
    code, _, err = one.end()
    assert code == 5
    assert "error: model.layers.1.self_attn.k_scale: no worker measured it (and 1 more fault)" in err
    assert not one.pack.exists()


def test_a_signal_stops_the_engine_and_leaves_no_pack(calibrate):
    # The stand-in measures nothing, so the verb waits for it; nothing is called off politely that nobody waits for.
    one = calibrate("engine.stop_timeout_s=600", ignore_term=True)
    harness.until(lambda: one.runs.exists() and list(one.runs.glob("*/measurements/control.json")), 60.0)
    one.process.send_signal(signal.SIGTERM)
    code, out, err = one.end()
    assert (code, out, err.count("Traceback")) == (143, "", 0), err
    assert not one.pack.exists()
    assert harness.marked(one.run) == []


def test_the_engines_death_ends_it(calibrate):
    one = calibrate(chat="busy", work_s=0.0, then="hang", measure=measured())
    harness.until(lambda: one.runs.exists() and list(one.runs.glob("*/measurements/control.json")), 60.0)
    harness.kill_marked(one.run)
    code, _, err = one.end()
    assert code == 6, err
    assert not one.pack.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["overlay.path=x"], 2, "error: overlay is set, and calibration measures the base checkpoint without scales"),
        (["views.scales=unit"], 2, "error: views.scales is set, and calibration measures the base checkpoint"),
        (["prompts=/nowhere.jsonl"], 2, "error: the prompts cannot be read"),
        (["prompts_sha256=00"], 5, "error: the prompts are not those that prompts_sha256 pins"),
        (["max_tokens=0"], 2, "error: max_tokens=0 is too small"),
        (["max_tokens=1024"], 2, "error: max_tokens=1024 leaves no room for a prompt"),
        (["server.host=nowhere.invalid"], 3, "error: 1 rule refuses this plan"),
    ],
)
def test_mistakes_are_one_clear_error(calibrate, arguments, code, line):
    one = calibrate(*arguments)
    found, out, err = one.end()
    assert (found, out) == (code, "")
    assert line in err
    assert "Traceback" not in err
    assert not one.pack.exists()


def test_nothing_is_written_over(calibrate, tmp_path):
    (tmp_path / "pack").mkdir()
    code, _, err = calibrate().end()
    assert code == 2
    assert f"error: {tmp_path / 'pack'} exists" in err
    assert list((tmp_path / "pack").iterdir()) == []


def test_what_came_meanwhile_is_not_written_over(calibrate, tmp_path):
    one = calibrate(measure=measured())
    harness.until(lambda: one.runs.exists() and list(one.runs.iterdir()), 60.0)
    one.pack.mkdir()
    code, out, err = one.end()
    assert (code, out) == (5, ""), err
    assert f"error: {one.pack} exists by now\n" in err
    assert list(one.pack.iterdir()) == []
    assert read_pack(tmp_path / ".pack.new").scales, "what took long to measure is kept, and the error says where"


def test_a_folder_belongs_to_one_calibration(calibrate, tmp_path):
    def measures(one):
        return one.runs.exists() and list(one.runs.glob("*/measurements/control.json"))

    # The stand-in measures nothing, so the first waits until it is killed.
    first = calibrate("engine.stop_timeout_s=600", ignore_term=True)
    harness.until(lambda: measures(first), 60.0)
    code, out, err = calibrate(measure=measured()).end()
    assert (code, out) == (2, "")
    assert f"error: another calibration writes {first.pack}\n" in err
    first.process.kill()
    harness.end(first.process, first.runs)
    third = calibrate(measure=measured())
    code, _, err = third.end()
    assert code == 0, err
    assert read_pack(third.pack).scales
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")], "the killed one's claim is gone"
