"""Kernels of resources shared by datasets: memory caches and seed generators.

Semantics: tensorflow/core/kernels/data/{cache_ops,random_seed_ops}.cc.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from graphmill import dtypes
from graphmill.spi import ResourceHandle
from graphmill_plugins.kernels.dataset.pipeline.buffering import MemoryCache
from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_kernel, scalar
from graphmill_plugins.kernels.dataset.pipeline.shuffle import SeedGenerator

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value

_STATE = ("state",)
_ids = itertools.count()


def anonymous(ctx: OpKernelContext, resource: Any, kind: str) -> ResourceHandle:
    """Return a new handle that owns a resource: dropping the handle frees it."""
    container = ctx.resources.default_container
    name = f"{kind}/{next(_ids)}"
    return ResourceHandle(ctx.device.name, container, name, kind, resource)


class Deleter:
    """A variant that deletes a resource together with its handle."""

    dtype = dtypes.variant.as_numpy_dtype
    shape: tuple[int, ...] = ()
    ndim = 0
    size = 1


@dataset_kernel("AnonymousMemoryCache", effects=_STATE)
def anonymous_memory_cache(ctx: OpKernelContext) -> tuple[ResourceHandle, Deleter]:
    """Create a memory cache; return its handle and its deleter."""
    return anonymous(ctx, MemoryCache(), "AnonymousMemoryCache"), Deleter()


@dataset_kernel("AnonymousRandomSeedGenerator", effects=("rng", "state"))
def anonymous_random_seed_generator(
    ctx: OpKernelContext, seed: Value, seed2: Value
) -> tuple[ResourceHandle, Deleter]:
    """Create a seed generator; return its handle and its deleter."""
    return _seed_generator(ctx, seed, seed2, reseeds=True)


@dataset_kernel("AnonymousSeedGenerator", effects=("rng", "state"))
def anonymous_seed_generator(
    ctx: OpKernelContext, seed: Value, seed2: Value, reshuffle: Value
) -> tuple[ResourceHandle, Deleter]:
    """Create a seed generator; return its handle and its deleter."""
    return _seed_generator(ctx, seed, seed2, reseeds=bool(scalar(reshuffle, "reshuffle")))


def _seed_generator(
    ctx: OpKernelContext, seed: Value, seed2: Value, *, reseeds: bool
) -> tuple[ResourceHandle, Deleter]:
    generator = SeedGenerator(
        int(scalar(seed, "seed")), int(scalar(seed2, "seed2")), reseeds=reseeds
    )
    return anonymous(ctx, generator, "AnonymousSeedGenerator"), Deleter()


@dataset_kernel("DummyMemoryCache", "DummySeedGenerator", "DummyIterationCounter", effects=_STATE)
def dummy_handle(ctx: OpKernelContext) -> ResourceHandle:
    """Return a handle without a resource; its consumer creates what it needs."""
    return anonymous(ctx, None, "Dummy")


@dataset_kernel(
    "DeleteMemoryCache", "DeleteRandomSeedGenerator", "DeleteSeedGenerator", effects=_STATE
)
def delete_resource(ctx: OpKernelContext, handle: Any, deleter: Any) -> None:
    """Delete the resource of a handle."""
    del ctx, deleter
    handle.resource = None
