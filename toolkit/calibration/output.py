"""The folder that a calibration leaves: pack, report and picture, published whole or not at all."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from toolkit.calibration.picture import PICTURE_FILE, picture
from toolkit.calibration.report import REPORT_FILE, Calibration
from toolkit.config.paths import user_path
from toolkit.errors import CheckFailedError, ConfigurationError
from toolkit.storage import disk
from toolkit.storage.lock import claimed
from toolkit.views.scales.pack import SCALE_FILE, make_pack, pack_files

_WHY, _FIX = "a scale pack is never written over another", "set folder=DIR to a new folder"


@contextmanager
def output_folder(configured: str, model: str) -> Iterator[Path]:
    """Where the pack goes, claimed until the end.

    Raises ConfigurationError: something is there already, another process has claimed it, or it cannot be made.
    """
    folder = _named(configured, model)
    _refuse_existing(folder)
    with ExitStack() as claim:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            free = claim.enter_context(claimed(folder.with_name(f".{folder.name}.lock")))
        except OSError as error:
            what = "the folder for the scale pack cannot be made"
            raise ConfigurationError(what, where=str(folder), why=str(error.strerror), fix="set folder=DIR") from error
        if not free:
            raise ConfigurationError(f"another calibration writes {folder}", why=_WHY, fix=_FIX)
        _refuse_existing(folder)  # another one may have finished meanwhile
        yield folder


def _named(configured: str, model: str) -> Path:
    if configured:
        return user_path(configured, "folder").absolute()
    import platformdirs

    return platformdirs.user_data_path("volta-toolkit") / "packs" / f"{model}-{time.strftime('%Y%m%d-%H%M%S')}"


def _refuse_existing(folder: Path) -> None:
    if folder.exists() or folder.is_symlink():
        raise ConfigurationError(f"{folder} exists", why=_WHY, fix=_FIX)


def write_calibration(calibration: Calibration, folder: Path) -> None:
    """Write and publish.

    Raises CheckFailedError: the disk fails, and nothing is left then; or something took the name, and the pack stays
    where the error says.
    """
    scales = {scale.name: scale.scale for scale in calibration.scales}
    maxima = {scale.name: scale.whole.largest for scale in calibration.scales}
    pack = make_pack(calibration.artifact, calibration.base_index_sha256, scales, maxima, SCALE_FILE)
    report = json.dumps(calibration.to_data(), indent=1, ensure_ascii=False) + "\n"
    files = {**pack_files(pack), REPORT_FILE: report.encode(), PICTURE_FILE: picture(calibration).encode()}
    staging = folder.with_name(f".{folder.name}.new")
    try:
        disk.remove(staging)
        disk.make_folder(staging)
        for name, data in files.items():
            disk.write_file(staging / name, data)
        disk.sync_tree(staging)
        disk.publish_new(staging, folder)
    except FileExistsError as error:
        kept = f"the measured pack is kept: mv '{staging}' NEW"
        raise CheckFailedError(f"{folder} exists by now", why=_WHY, fix=kept) from error
    except OSError as error:
        disk.remove(staging)
        what = "the scale pack cannot be written"
        raise CheckFailedError(what, where=str(folder), why=str(error.strerror), fix="set folder=DIR") from error
