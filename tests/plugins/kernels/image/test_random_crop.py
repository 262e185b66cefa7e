"""RandomCrop refuses negative sizes, for which TensorFlow aborts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_negative_size_is_refused(bind_kernel: Callable[..., Any], ctx: Any) -> None:
    image, size = np.zeros((5, 6, 2), np.float32), np.array([-1, 3])
    with pytest.raises(errors.InvalidArgumentError, match="at least 0"):
        bind_kernel("RandomCrop", image, size).compute(ctx, image, size)
