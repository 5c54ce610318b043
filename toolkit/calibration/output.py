"""The folder that a calibration leaves: pack, report and picture, published whole or not at all."""

from __future__ import annotations

import json
import time
from pathlib import Path

from toolkit.calibration.picture import PICTURE_FILE, picture
from toolkit.calibration.report import REPORT_FILE, Calibration
from toolkit.config.paths import user_path
from toolkit.errors import CheckFailedError, ConfigurationError
from toolkit.storage import disk
from toolkit.views.scales.pack import SCALE_FILE, make_pack, pack_files


def output_folder(configured: str, model: str) -> Path:
    """Where the pack goes; ConfigurationError where something is there already, or its parent cannot be made."""
    if configured:
        folder = user_path(configured, "folder").absolute()
    else:
        import platformdirs

        folder = platformdirs.user_data_path("volta-toolkit") / "packs" / f"{model}-{time.strftime('%Y%m%d-%H%M%S')}"
    if folder.exists() or folder.is_symlink():
        raise ConfigurationError(
            f"{folder} exists", why="a scale pack is never written over another", fix="set folder=DIR to a new folder"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = "the folder for the scale pack cannot be made"
        raise ConfigurationError(what, where=str(folder), why=str(error.strerror), fix="set folder=DIR") from error
    return folder


def write_calibration(calibration: Calibration, folder: Path) -> None:
    """Write and publish; CheckFailedError where the disk fails, and nothing is left then."""
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
        disk.publish(staging, folder)
    except OSError as error:
        disk.remove(staging)
        what = "the scale pack cannot be written"
        raise CheckFailedError(what, where=str(folder), why=str(error.strerror), fix="set folder=DIR") from error
