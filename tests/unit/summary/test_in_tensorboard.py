"""Event files in TensorBoard's own pages; skipped without a Chromium or the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.unit.report.chromium import find_chromium
from tests.unit.summary.tensorboard_page import TensorBoardPage, has_tensorboard

from graphmill import summary

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = find_chromium()


@pytest.mark.divided
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed on this machine")
@pytest.mark.skipif(not has_tensorboard(), reason="the package tensorboard is not installed")
def test_tensorboard_draws_scalars_and_histograms(tmp_path: Path) -> None:
    with summary.FileWriter(tmp_path / "logs") as writer:
        for step in range(3):
            writer.add_scalar("train/loss", 1.0 / (step + 1), step)
            writer.add_scalar("train/rate", 0.5 + step, step)
            writer.add_histogram("train/weights", np.arange(10.0) * step, step)
    assert CHROMIUM is not None
    with TensorBoardPage(CHROMIUM, tmp_path / "profile", tmp_path / "logs") as board:
        board.open(num_cards=3, num_charts=2)
        assert board.titles() == ["train/loss", "train/rate", "train/weights"]
        assert board.page.faults() == []
