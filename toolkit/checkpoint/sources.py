"""The one entry: a checkpoint's configuration to its facts.

locate, locate_draft
        look at this machine only, and change nothing on it (what `plan` calls);
fetch   downloads, converts or draws what is missing (what `serve` calls).
"""

from __future__ import annotations

from pathlib import Path

from toolkit.checkpoint.facts import CheckpointFacts
from toolkit.checkpoint.kinds.hub import HubKind
from toolkit.checkpoint.kinds.kind import SourceFiles
from toolkit.checkpoint.kinds.local import LocalKind
from toolkit.checkpoint.kinds.package import PackageKind
from toolkit.checkpoint.kinds.random import RandomKind
from toolkit.checkpoint.local import read_facts
from toolkit.checkpoint.progress import Progress, Silent
from toolkit.checkpoint.store import Store
from toolkit.config.schema.checkpoint import CheckpointConfig, CheckpointSource, SourceKind
from toolkit.config.schema.speculative import SpeculativeConfig
from toolkit.errors import ConfigurationError


def locate(config: CheckpointConfig, cache: Path | None = None) -> CheckpointFacts:
    """What is known here and now; `present` is False, with `missing` told, where the files are not on this machine.

    cache: the folder of converted and drawn checkpoints; None means the user's cache folder.
    Raises ConfigurationError where the source is not named properly, CheckFailedError where its files are broken.
    """
    files = source_files(config, cache)
    folder = files.find()
    if folder is not None:
        return read_facts(folder, config.name)
    return CheckpointFacts(
        name=config.name,
        present=False,
        root=None,
        config=files.declared(),
        weight_bytes=config.declared_weight_bytes,
        missing=files.missing(),
    )


def locate_draft(speculative: SpeculativeConfig, cache: Path | None = None) -> CheckpointFacts | None:
    """What is known of a draft model's own checkpoint; None where the deployment names none.

    Raises as `locate` does.
    """
    if not speculative.has_draft:
        return None
    if speculative.draft_path:
        source = CheckpointSource(kind=SourceKind.local, path=speculative.draft_path)
    elif speculative.draft_repository and speculative.draft_revision:
        repository, revision = speculative.draft_repository, speculative.draft_revision
        source = CheckpointSource(kind=SourceKind.hub, repository=repository, revision=revision)
    else:
        return None
    return locate(CheckpointConfig(name="draft", source=source), cache)


def fetch(config: CheckpointConfig, cache: Path | None = None, progress: Progress | None = None) -> CheckpointFacts:
    """The facts of files that are then on this machine. Raises ToolkitError where they cannot be brought here."""
    return read_facts(source_files(config, cache).get(progress or Silent()), config.name)


def source_files(config: CheckpointConfig, cache: Path | None) -> SourceFiles:
    """The configured kind of source; ConfigurationError where the fields that this kind reads are not set."""
    store = Store.at(cache)
    match config.source.kind:
        case SourceKind.local:
            return LocalKind(config)
        case SourceKind.hub:
            return HubKind(config)
        case SourceKind.package:
            return PackageKind(config, store)
        case SourceKind.random:
            return RandomKind(config, store)
    kinds = "|".join(kind.value for kind in SourceKind)
    raise ConfigurationError("checkpoint.source.kind is not set", fix=f"set checkpoint.source.kind={kinds}")
