"""Any order of materialize, edit, corrupt, verify, repair, gc and crash, against a model of what must be there."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from view_faults import killed_at
from view_samples import make_small_base, pack_for, scales_for, spec_for, write_pack

from toolkit.checkpoint.progress import Silent
from toolkit.errors import CheckFailedError
from toolkit.views.garbage import collect, inventory
from toolkit.views.inspect import Owner
from toolkit.views.lease import lease
from toolkit.views.materialize import is_whole, materialize
from toolkit.views.scales.pack import SCALE_FILE
from toolkit.views.spec import ViewSpec
from toolkit.views.store import ViewStore
from toolkit.views.verify import repair, verify

OWN = {"CACHEDIR.TAG", ".locks", ".hashes", "current"}
PACKS = 2


class Views(RuleBasedStateMachine):
    """The model: for each view whether its own files are sound, and which config.json it was made of."""

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.folder = TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None)
        root = Path(self.folder.name)
        self.base = make_small_base(root / "base")
        self.packs = [
            write_pack(root / f"p{number}", pack_for(self.base, scales_for(1, first=0.5 + number)))
            for number in range(PACKS)
        ]
        self.store = ViewStore.at(str(root / "store"))
        self.config = self.set_config(0)
        self.views: dict[str, dict[str, object]] = {}

    def teardown(self) -> None:
        self.folder.cleanup()

    def set_config(self, number: int) -> int:
        (self.base / "config.json").write_text(f'{{"number": {number}}}')
        return number

    def spec(self, pack: int) -> ViewSpec:
        return spec_for(self.base, self.packs[pack])

    @initialize()
    def begin(self) -> None:
        self.store.prepare()

    @rule(pack=st.integers(0, PACKS - 1))
    def materialize(self, pack: int) -> None:
        spec = self.spec(pack)
        known = self.views.get(spec.name)
        built = materialize(spec, self.store).built
        assert built == (known is None or known["lost"] == "link")
        # A corrupted shard of the right length is verify's to find: materialize reads no contents.
        if built:
            self.views[spec.name] = {"lost": None, "config": self.config, "pack": pack}
        assert self.store.current_name() == spec.name

    @rule(number=st.integers(0, 2))
    def edit_base(self, number: int) -> None:
        self.config = self.set_config(number)

    @precondition(lambda self: self.views)
    @rule(data=st.data(), kind=st.sampled_from(["shard", "link"]))
    def corrupt(self, data: st.DataObject, kind: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.views)))
        folder = self.store.path(name)
        if self.views[name]["lost"]:
            return
        if kind == "link":
            (folder / "model.safetensors").unlink()
        else:
            shard = folder / SCALE_FILE
            shard.write_bytes(shard.read_bytes()[:-4] + b"\0\0\0\1")
        self.views[name]["lost"] = kind

    @precondition(lambda self: self.views)
    @rule(data=st.data(), fast=st.booleans())
    def verify(self, data: st.DataObject, fast: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.views)))
        faults = verify(self.store, name, Silent(), fast=fast).faults
        model = self.views[name]
        damaged = {"shard": {SCALE_FILE}, "link": {"model.safetensors"}, None: set()}[model["lost"]]  # type: ignore[index]
        assert {fault.path for fault in faults if fault.owner is Owner.view} == damaged
        stale = {"config.json"} if model["config"] != self.config else set()
        assert {fault.path for fault in faults if fault.owner is Owner.base} == stale

    @precondition(lambda self: self.views)
    @rule(data=st.data())
    def repair(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.views)))
        model = self.views[name]
        try:
            repair(self.store, name, Silent())
        except CheckFailedError as error:
            assert "has changed since" in error.what  # noqa: PT017 - both outcomes are right, each in its state
            assert model["config"] != self.config
        else:
            assert model["config"] == self.config
            model["lost"] = None

    @rule(data=st.data())
    def collect(self, data: st.DataObject) -> None:
        used = data.draw(st.sampled_from([None, *sorted(self.views)]))
        if used is None:
            collect(self.store, inventory(self.store), lambda _: None)
            self.views = {}
        else:
            with lease(self.store, used):
                collect(self.store, inventory(self.store), lambda _: None)
            self.views = {used: self.views[used]}
        assert {path.name for path in self.store.root.iterdir()} <= OWN | set(self.views)

    @rule(pack=st.integers(0, PACKS - 1), at=st.integers(1, 80))
    def crash_in_materialize(self, pack: int, at: int) -> None:
        spec = self.spec(pack)
        killed_at(at, lambda: materialize(spec, self.store))
        if spec.name in self.store.names() and is_whole(spec, self.store):
            known = self.views.get(spec.name)
            if known is None or known["lost"] == "link":
                self.views[spec.name] = {"lost": None, "config": self.config, "pack": pack}

    @rule(at=st.integers(1, 120))
    def crash_in_gc(self, at: int) -> None:
        killed_at(at, lambda: collect(self.store, inventory(self.store), lambda _: None))
        self.views = {name: model for name, model in self.views.items() if name in self.store.names()}

    @invariant()
    def the_store_holds_what_the_model_says(self) -> None:
        assert set(self.store.names()) == set(self.views)
        current = self.store.current_name()
        assert current is None or current in self.views


Views.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestViews = Views.TestCase
