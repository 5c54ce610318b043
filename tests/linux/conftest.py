"""What tests of processes share lies with the stand-in engine."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "standin"))
