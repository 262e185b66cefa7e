"""Add the folder of the benchmark, which is not an installed package, to the path."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
