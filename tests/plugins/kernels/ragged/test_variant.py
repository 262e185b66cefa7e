"""Variants of ragged tensors are added only if their splits are the same."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.ragged._ragged import RaggedVariant

SPLITS = np.array([0, 2, 3])
VALUES = np.array([1.0, 2.0, 3.0])


def test_values_with_equal_splits_are_added():
    total = RaggedVariant((SPLITS,), VALUES).add(np, RaggedVariant((SPLITS.copy(),), VALUES))
    assert total.values.tolist() == [2, 4, 6]
    assert [splits.tolist() for splits in total.nested_splits] == [[0, 2, 3]]


@pytest.mark.parametrize("others", [(), (SPLITS, np.array([0, 1, 2, 3])), (np.array([0, 1, 3]),)])
def test_other_splits_are_refused(others):
    """Splits of fewer or more levels differ too, even if those of the common levels are equal."""
    with pytest.raises(InvalidArgumentError, match="only if their splits are equal"):
        RaggedVariant((SPLITS,), VALUES).add(np, RaggedVariant(others, VALUES))
