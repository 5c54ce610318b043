"""What `plan` says of a view that nobody has made: its facts, its folder in the command line, and what does not fit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from view_samples import make_base, pack_for, scales_for, snapshot, spec_for, write_pack

from toolkit.checkpoint.local import read_facts
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind
from toolkit.config.schema.overlay import OverlayConfig
from toolkit.config.schema.speculative import SpeculativeConfig
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.config.schema.views import ViewsConfig
from toolkit.errors import ConfigurationError
from toolkit.planning.plan import Severity, View
from toolkit.views.materialize import materialize
from toolkit.views.planned import planned_view, view_facts
from toolkit.views.store import ViewStore

EDIT = {"file": "config.json", "op": "replace", "path": "/dtype", "value": "float16"}


def deployment(base: Path, **groups: object) -> DeploymentConfig:
    source = CheckpointSource(SourceKind.local, str(base))
    return DeploymentConfig(checkpoint=CheckpointConfig("tiny", source), **groups)  # type: ignore[arg-type]


@pytest.mark.parametrize("edits", [(), (EDIT,)], ids=["scales", "scales and an edit"])
def test_the_facts_are_those_of_the_folder_once_it_is_made(
    base: Path, pack: Path, store: ViewStore, edits: tuple[dict[str, object], ...]
) -> None:
    spec = spec_for(base, pack, edits=edits)
    before = snapshot(base)
    foreseen = view_facts(spec, read_facts(base, "tiny"), store.path(spec.name))
    assert not store.root.exists()
    assert snapshot(base) == before
    assert foreseen == read_facts(materialize(spec, store).path, "tiny")


def test_also_of_drafts_single_files_and_views_of_views(tmp_path: Path, store: ViewStore) -> None:
    base = make_base(tmp_path / "b", draft=1)
    packs = [
        write_pack(tmp_path / "t", pack_for(base, scales_for(), artifact="target")),
        write_pack(tmp_path / "d", pack_for(base, scales_for(1, "mtp"), artifact="draft")),
    ]
    lower = materialize(spec_for(base, *packs, needs_draft=True), store).path
    spec = spec_for(lower, edits=(EDIT,))
    foreseen = view_facts(spec, read_facts(lower, "tiny"), store.path(spec.name))
    assert foreseen == read_facts(materialize(spec, store).path, "tiny")


def test_without_a_view_it_is_the_checkpoint(base: Path) -> None:
    facts = read_facts(base, "tiny")
    seen = planned_view(deployment(base), facts)
    assert (seen.view, seen.checkpoint, seen.findings) == (View(str(base), None, tuple(sorted(facts.files))), facts, ())


def test_a_pack_that_does_not_fit_is_a_finding(base: Path, tmp_path: Path) -> None:
    other = make_base(tmp_path / "other", layers=3)
    pack = write_pack(tmp_path / "p", pack_for(other, scales_for(3)))
    seen = planned_view(deployment(base, overlay=OverlayConfig(path=str(pack))), read_facts(base, "tiny"))
    (finding,) = seen.findings
    assert (finding.rule, finding.severity) == ("view-unfit", Severity.refuse)
    assert finding.message.startswith(
        "Base checkpoint revision does not match the scale pack: the pack was measured on "
    )
    assert (seen.view, seen.checkpoint.root) == (View(None, None), None), "no command line is told for it"


@pytest.mark.parametrize("strict", [True, False])
def test_draft_scales_never_fall_back_in_a_plan_either(tmp_path: Path, strict: bool) -> None:
    base = make_base(tmp_path / "d", draft=1)
    pack = write_pack(tmp_path / "p", pack_for(base, scales_for()))
    config = deployment(
        base, overlay=OverlayConfig(path=str(pack), strict=strict), speculative=SpeculativeConfig("mtp", 3)
    )
    (finding,) = planned_view(config, read_facts(base, "tiny")).findings
    assert finding.message.startswith("Draft KV scales never fall back: loaded 0 of 2 required. Missing: mtp.layers.0.")
    config.views.draft_scales = "prototype:unit"
    seen = planned_view(config, read_facts(base, "tiny"))
    assert seen.findings == ()
    assert "mtp.layers.0.self_attn.k_scale" in seen.checkpoint.tensors


def test_a_pack_that_is_still_to_be_fetched(base: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    overlay = OverlayConfig("published", None, "a/b", "1" * 40)
    seen = planned_view(deployment(base, overlay=overlay), read_facts(base, "tiny"))
    assert [(finding.rule, finding.severity) for finding in seen.findings] == [("pack-not-here-yet", Severity.info)]


def test_a_misspelled_edit_is_an_error_at_once(base: Path) -> None:
    config = deployment(base, views=ViewsConfig(edits=[{**EDIT, "path": "/dtyp"}]))
    with pytest.raises(ConfigurationError, match="there is no 'dtyp'"):
        planned_view(config, read_facts(base, "tiny"))


def said(verb: str, *arguments: str) -> tuple[int, dict[str, object]]:
    command = [sys.executable, "-m", f"toolkit.{verb}", "+recipe=tiny_random_cpu", "kv=fp8_e4m3", "output=json"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize(("verb", "more"), [("plan", ()), ("serve", ("dry_run=true",))])
def test_the_command_line_names_the_view(tmp_path: Path, verb: str, more: tuple[str, ...]) -> None:
    """The verbs, on a checkpoint that is made first: the same folder that materialize then makes."""
    root = f"views.root={tmp_path / 'views'}"
    _, made = said("materialize", "views.scales=unit", f"views.root={tmp_path / 'other'}")
    code, plan = said(verb, "views.scales=unit", root, *more)
    assert code in (0, 3)  # serve also says here what this machine lacks
    view = str(tmp_path / "views" / Path(str(made["path"])).name)
    assert plan["view"]["path"] == view  # type: ignore[index]
    assert view in plan["argv"]  # type: ignore[operator]
    assert not Path(view).exists()
    assert "kv-unit-scales" not in {finding["rule"] for finding in plan["findings"]}  # type: ignore[attr-defined,index]
