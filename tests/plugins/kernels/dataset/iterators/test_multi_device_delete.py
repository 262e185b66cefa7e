"""DeleteMultiDeviceIterator: the handle no longer has an iterator."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from graphmill.errors import OpError
from graphmill.spi import ResourceHandle
from graphmill_plugins.kernels.dataset.iterators import multi_device


def test_deleted_iterator_cannot_be_used_again():
    found = multi_device.MultiDeviceIterator(2, [np.dtype(np.int64)], [()])
    handle = ResourceHandle("/device:CPU:0", "", "m", "MultiDeviceIterator", found)
    ctx = SimpleNamespace()
    multi_device.delete_multi_device_iterator(ctx, handle, [], None)
    with pytest.raises(OpError):
        multi_device.delete_multi_device_iterator(ctx, handle, [], None)
