"""Tests on a GPU. They are skipped where JAX has none.

    python -m pytest tests/gpu -n 8

Products are computed in full float32 here. By default, JAX and TensorFlow compute them on GPUs in
TensorFloat-32, whose results agree with a CPU's to three digits only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from graphmill_plugins._jax import jax_module
from graphmill_plugins.gpu.device import why_no_gpu

if TYPE_CHECKING:
    from collections.abc import Iterator

collect_ignore = ["test_kernels.py"] if why_no_gpu() else []  # 17,000 cases, all skipped


@pytest.fixture(autouse=True, scope="session")
def full_precision() -> Iterator[None]:
    """Skip the tests without a GPU; otherwise let JAX compute products in full precision."""
    reason = why_no_gpu()
    if reason:
        pytest.skip(reason)
    config = jax_module().config
    before = config.jax_default_matmul_precision
    config.update("jax_default_matmul_precision", "highest")
    yield
    config.update("jax_default_matmul_precision", before)
