"""Random ops: no gradient flows to their shapes and seeds."""

from __future__ import annotations

from graphmill.plugin.gradient_declaration import not_differentiable

none = not_differentiable(
    "RandomStandardNormal", "ParameterizedTruncatedNormal", "TruncatedNormal", "RandomUniform",
    "RandomUniformInt", "Multinomial", "StatelessMultinomial", "StatelessRandomNormal",
    "StatelessRandomNormalV2", "StatelessRandomUniform", "StatelessRandomUniformV2",
    "StatelessRandomUniformInt", "StatelessRandomUniformIntV2", "StatelessTruncatedNormal",
    "StatelessTruncatedNormalV2", "RandomShuffle", "RandomCrop",
)  # fmt: skip
