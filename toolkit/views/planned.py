"""A deployment's view before it is made: the facts that reading its folder will give, for plans of what is served."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from toolkit.checkpoint.facts import CheckpointFacts, TensorFacts
from toolkit.checkpoint.index import INDEX_FILE
from toolkit.checkpoint.local import CONFIG_FILE
from toolkit.checkpoint.strict_json import parse_object
from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.errors import CheckFailedError
from toolkit.planning.plan import Finding, Plan, Severity, View
from toolkit.views.digest import sha256
from toolkit.views.planning import find_spec, view_of, wants_view
from toolkit.views.spec import ViewSpec


@dataclass(frozen=True)
class PlannedView:
    """The folder that the engine will be given."""

    view: View
    checkpoint: CheckpointFacts
    """Of that folder; its root is None where it cannot be told yet."""
    findings: tuple[Finding, ...] = ()

    def onto(self, plan: Plan) -> Plan:
        """The plan that was made of these facts, with the view and what was found of it."""
        return replace(plan, view=self.view, findings=(*plan.findings, *self.findings))


def planned_view(config: DeploymentConfig, checkpoint: CheckpointFacts) -> PlannedView:
    """The deployment's view on this machine as it is; nothing is made.

    A scale pack that does not fit is a finding. Raises ConfigurationError for an edit or a place that is misspelled.
    """
    if not checkpoint.present or checkpoint.root is None or not wants_view(config):
        files = tuple(sorted(checkpoint.files))
        return PlannedView(View(str(checkpoint.root) if checkpoint.root else None, None, files), checkpoint)
    nowhere = PlannedView(View(None, None), replace(checkpoint, root=None))
    try:
        spec = find_spec(config, checkpoint)
    except CheckFailedError as error:
        why = f": {error.why}" if error.why else ""
        finding = Finding("view-unfit", Severity.refuse, error.where or "overlay", f"{error.what}{why}", error.fix)
        return replace(nowhere, findings=(finding,))
    if spec is None:
        message = "the scale pack is not on this machine yet, so its view is not known; serve fetches it"
        return replace(nowhere, findings=(Finding("pack-not-here-yet", Severity.info, "overlay", message),))
    view = view_of(config, spec)
    return PlannedView(view, view_facts(spec, checkpoint, Path(str(view.path))))


def view_facts(spec: ViewSpec, base: CheckpointFacts, folder: Path) -> CheckpointFacts:
    """What `read_facts` will say of the view in `folder`."""
    own = {tensor.name: tensor for file, data in spec.fresh.items() for tensor in _tensors(file, data)}
    added = [tensor.num_bytes for name, tensor in own.items() if name not in base.tensors]
    index = spec.fresh.get(INDEX_FILE)
    return replace(
        base,
        root=folder,
        config=parse_object(spec.fresh[CONFIG_FILE]) if CONFIG_FILE in spec.fresh else base.config,
        tensors={**base.tensors, **own},
        files={file.path: file.size for file in spec.links} | {path: len(data) for path, data in spec.fresh.items()},
        index_sha256=sha256(index) if index is not None else base.index_sha256,
        weight_bytes=None if base.weight_bytes is None else base.weight_bytes + sum(added),
    )


def _tensors(file: str, data: bytes) -> Iterator[TensorFacts]:
    """Of a scale shard, which was checked when its pack was read."""
    if file.endswith(".safetensors"):
        header = parse_object(data[8 : 8 + int.from_bytes(data[:8], "little")])
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                yield TensorFacts(name, entry["dtype"], tuple(entry["shape"]), end - begin, file)
