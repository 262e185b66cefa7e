"""The benchmark is a script, not a package that is installed: its folder goes on the path."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
