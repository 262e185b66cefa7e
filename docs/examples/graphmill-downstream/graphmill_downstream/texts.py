"""A Python function that graphs call by name."""

from __future__ import annotations

import numpy as np


def shout(texts):
    return np.array([text.upper() for text in texts.ravel()], object).reshape(texts.shape)
