"""Declared views: every shipped one, and each way of being wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from view_samples import make_base, pack_for, projections, scales_for, write_pack

from toolkit.checkpoint.local import read_facts
from toolkit.checkpoint.progress import Silent
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind
from toolkit.config.schema.overlay import OverlayConfig
from toolkit.config.schema.speculative import SpeculativeConfig
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.config.schema.views import ViewsConfig
from toolkit.errors import ConfigurationError, ToolkitError
from toolkit.views import planning
from toolkit.views.declared import DeclaredView, find_declared, read_declared, shipped_views
from toolkit.views.garbage import inventory
from toolkit.views.scales.names import layer_and_kind, scale_names
from toolkit.views.store import ViewStore

SHIPPED = sorted(shipped_views().glob("*.yaml"))
SHA = "a" * 64


def first_line(path: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_declared(path)
    return str(caught.value).splitlines()[0]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_view_is_whole(path: Path) -> None:
    view = read_declared(path)
    assert view.repository
    assert view.revision
    assert len(view.revision) == 40
    assert view.overlays or view.edits
    assert all(overlay.repository and overlay.scale_sha256 for overlay in view.overlays)
    assert all(layer_and_kind(name) for name in view.expected_tensors)
    assert len(set(view.expected_tensors)) == len(view.expected_tensors)


def test_the_published_scales_are_declared() -> None:
    view = find_declared("qwen38_flash_next_e4m3")
    assert view.index_sha256 == "da5ca9c3b65e48e151329e64e141c2fa700bf2f99aec53cc014e4b52a6ff7a84"
    (overlay,) = view.overlays
    assert overlay.scale_sha256 == "bbf767cd46fe3ac52793c87ec069a964bf6fb64c5b6183959c734b9772936cc9"
    names = scale_names(projections("model.language_model", range(3, 48, 4)))
    assert set(view.expected_tensors) == names.target


def test_the_overlay_group_and_the_declared_view_name_the_same_pack() -> None:
    from omegaconf import OmegaConf

    from toolkit.config.search_path import shipped_conf

    group = OmegaConf.load(shipped_conf() / "overlay" / "qwen38_flash_next_e4m3.yaml")
    view = find_declared("qwen38_flash_next_e4m3")
    (overlay,) = view.overlays
    assert (group.repository, group.revision) == (overlay.repository, overlay.revision)
    assert (group.base_index_sha256, group.scale_sha256) == (view.index_sha256, overlay.scale_sha256)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: 1\na: 2\n", "x.yaml cannot be read: while constructing a mapping"),
        ("- 1\n", "x.yaml holds no keys"),
        ("bas: {}\n", "x.yaml has no key 'bas'"),
        ("base: {revison: x}\n", "base has no key 'revison'"),
        ("base: {}\n", "base.index_sha256=None is no SHA-256: 64 digits 0-9a-f are needed"),
        (
            f"base: {{index_sha256: {SHA}}}\noverlays: [{{path: p}}]\n",
            "scale_sha256=None is no SHA-256: 64 digits 0-9a-f are needed",
        ),
        (
            f"base: {{index_sha256: {SHA}}}\noverlays: [{{scale_sha256: {SHA}}}]\n",
            "the overlay says no place of its scale pack",
        ),
        (
            f"base: {{index_sha256: {SHA}}}\noverlays: [{{scale_sha256: {SHA}, repository: a/b, revision: main}}]\n",
            "overlay.revision='main' is no commit: 40 digits 0-9a-f are needed",
        ),
        (f"base: {{index_sha256: {SHA}}}\nedits: [{{file: x.json}}]\n", "an edit needs file, op and path"),
    ],
)
def test_a_declaration_that_is_none(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    assert first_line(tmp_path / "x.yaml") == error


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(ConfigurationError) as caught:
        find_declared("nothing")
    assert caught.value.what == "no view is declared as 'nothing'"
    assert "qwen38_flash_next_e4m3" in caught.value.fix


def deployment(base: Path, **groups: object) -> DeploymentConfig:
    source = CheckpointSource(SourceKind.local, str(base))
    return DeploymentConfig(checkpoint=CheckpointConfig("tiny", source), **groups)  # type: ignore[arg-type]


@pytest.fixture
def declared(base: Path, pack: Path, monkeypatch: pytest.MonkeyPatch) -> DeclaredView:
    """A declared view of the test's own base."""
    measured = pack_for(base, scales_for())
    path = base.parent / "mine.yaml"
    path.write_text(
        f"base: {{repository: a/b, revision: {'1' * 40}, index_sha256: {measured.base_index_sha256}}}\n"
        f"overlays: [{{path: {pack.name}, scale_sha256: {measured.sha256}}}]\n"
        "edits: [{file: config.json, op: replace, path: /dtype, value: float16, was: bfloat16}]\n"
        "expected_tensors: [model.layers.1.self_attn.v_scale]\n"
    )
    view = read_declared(path)
    monkeypatch.setattr(planning, "find_declared", lambda name: view)
    return view


def test_a_declared_view_is_made_of_its_own_parts(base: Path, declared: DeclaredView, tmp_path: Path) -> None:
    config = deployment(base, views=ViewsConfig(root=str(tmp_path / "s"), declared="mine"))
    view = planning.plan_view(config, read_facts(base, "tiny"))
    assert view.digest
    assert view.path == str(tmp_path / "s" / f"tiny-{view.digest[:12]}")
    assert "model-kvscales.safetensors" in view.files


def test_another_revision_than_the_declared_is_refused(base: Path, declared: DeclaredView) -> None:
    config = deployment(base, views=ViewsConfig(declared="mine"))
    config.checkpoint.source.revision = "2" * 40
    with pytest.raises(ConfigurationError) as caught:
        planning.plan_view(config, read_facts(base, "tiny"))
    assert caught.value.what == f"the view mine is declared for revision {'1' * 40}, not {'2' * 40}"


def test_another_base_than_the_declared_is_refused(declared: DeclaredView, tmp_path: Path) -> None:
    other = make_base(tmp_path / "other", layers=3)
    with pytest.raises(ToolkitError) as caught:
        planning.plan_view(deployment(other, views=ViewsConfig(declared="mine")), read_facts(other, "tiny"))
    assert caught.value.what == "Base checkpoint revision does not match the scale pack"


def test_a_declared_view_and_an_overlay_besides(base: Path, declared: DeclaredView) -> None:
    config = deployment(base, views=ViewsConfig(declared="mine"), overlay=OverlayConfig("more", "/x"))
    with pytest.raises(ConfigurationError) as caught:
        planning.plan_view(config, read_facts(base, "tiny"))
    assert caught.value.what == "both views.declared=mine and an overlay of its own are set"


def test_without_anything_the_view_is_the_checkpoint(base: Path) -> None:
    facts = read_facts(base, "tiny")
    view = planning.plan_view(deployment(base), facts)
    assert (view.path, view.digest, view.files) == (str(base), None, tuple(sorted(facts.files)))


def test_an_overlay_alone(base: Path, pack: Path, tmp_path: Path) -> None:
    config = deployment(base, overlay=OverlayConfig(path=str(pack)), views=ViewsConfig(root=str(tmp_path / "s")))
    view = planning.plan_view(config, read_facts(base, "tiny"))
    assert view.digest
    config.overlay.scale_sha256 = SHA
    with pytest.raises(ToolkitError) as caught:
        planning.plan_view(config, read_facts(base, "tiny"))
    assert caught.value.what == "model-kvscales.safetensors: the SHA-256 is not the one that the overlay names"


def test_a_pack_that_is_not_here_yet(base: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    overlay = OverlayConfig("published", None, "a/b", "1" * 40)
    view = planning.plan_view(deployment(base, overlay=overlay), read_facts(base, "tiny"))
    assert (view.path, view.digest) == (None, None)


def test_a_pack_in_the_hub_cache(base: Path, pack: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    cached = tmp_path / "hub/models--a--b/snapshots" / ("1" * 40)
    cached.parent.mkdir(parents=True)
    pack.rename(cached)
    overlay = OverlayConfig("published", None, "a/b", "1" * 40)
    config = deployment(base, overlay=overlay, views=ViewsConfig(root=str(tmp_path / "s")))
    assert planning.plan_view(config, read_facts(base, "tiny")).digest


def test_what_is_served_is_what_was_planned(base: Path, pack: Path, tmp_path: Path) -> None:
    facts, store = read_facts(base, "tiny"), ViewStore.at(str(tmp_path / "s"))
    config = deployment(base, overlay=OverlayConfig(path=str(pack)), views=ViewsConfig(root=str(store.root)))
    planned = planning.plan_view(config, facts)
    with planning.leased_view(config, facts, Silent()) as view:
        assert view == planned
        assert Path(str(view.path), "model-kvscales.safetensors").is_file()
        assert [kept.reason for kept in inventory(store).kept] == ["in use"]
    assert [garbage.name for garbage in inventory(store).garbage] == [Path(str(view.path)).name]
    with planning.leased_view(deployment(base), facts, Silent()) as own:
        assert own.path == str(base)


def test_mtp_drafting_demands_the_draft_s_scales(tmp_path: Path) -> None:
    base = make_base(tmp_path / "d", draft=1)
    pack = write_pack(tmp_path / "p", pack_for(base, scales_for()))
    config = deployment(base, overlay=OverlayConfig(path=str(pack)), speculative=SpeculativeConfig("mtp", 3))
    with pytest.raises(ToolkitError, match="Draft KV scales never fall back: loaded 0 of 2 required"):
        planning.plan_view(config, read_facts(base, "tiny"))
    config.views.draft_scales = "prototype:from-layer-1"
    assert "model-bf16-kvscales-mtp.safetensors" in planning.plan_view(config, read_facts(base, "tiny")).files
