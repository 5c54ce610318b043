"""The library of recorded machines. All but `no_gpu` are written down from public reports, as no V100 was at hand."""

from pathlib import Path

from toolkit.machine import facts_file
from toolkit.machine.facts import MachineFacts

FOLDER = Path(__file__).parent / "facts"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def file_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


def recorded(name: str) -> MachineFacts:
    return facts_file.read(file_of(name))
