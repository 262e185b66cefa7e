"""Tools for graph passes: options, placement, effects.

from graphmill.spi.passes import PassOptions
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.lowering.bind_node import bind_node as bind_node
    from graphmill.lowering.functions.body_copy import BodyCopy as BodyCopy
    from graphmill.lowering.functions.body_copy import free_name_in as free_name_in
    from graphmill.lowering.functions.function_bodies import body_as_run as body_as_run
    from graphmill.lowering.functions.function_bodies import place_body as place_body
    from graphmill.lowering.functions.inline_call import inline_call as inline_call
    from graphmill.lowering.functions.inline_call import is_plain_call as is_plain_call
    from graphmill.lowering.passes import PassOptions as PassOptions
    from graphmill.lowering.passes import is_switched_off as is_switched_off
    from graphmill.lowering.placement.placer import PlacementOptions as PlacementOptions
    from graphmill.lowering.placement.placer import place as place
    from graphmill.lowering.policies.effects_policy import EffectsPolicy as EffectsPolicy
    from graphmill.lowering.policies.node_effects import effects_of_node as effects_of_node
    from graphmill.lowering.policies.node_effects import (
        function_with_effects as function_with_effects,
    )
    from graphmill.lowering.policies.node_effects import is_overridden as is_overridden
    from graphmill.lowering.policies.node_effects import kernels_of_node as kernels_of_node
    from graphmill.lowering.policies.node_effects import overrides_op as overrides_op
    from graphmill.ops.definition.effects import effects_of as effects_of
    from graphmill.ops.definition.effects import randomness_of as randomness_of
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.lowering.bind_node": "bind_node",
            "graphmill.lowering.policies.effects_policy": "EffectsPolicy",
            "graphmill.lowering.functions.body_copy": "BodyCopy free_name_in",
            "graphmill.lowering.functions.function_bodies": "body_as_run place_body",
            "graphmill.lowering.functions.inline_call": "inline_call is_plain_call",
            "graphmill.lowering.policies.node_effects": (
                "effects_of_node function_with_effects is_overridden kernels_of_node overrides_op"
            ),
            "graphmill.lowering.passes": "PassOptions is_switched_off",
            "graphmill.lowering.placement.placer": "PlacementOptions place",
            "graphmill.ops.definition.effects": "effects_of randomness_of",
        },
    )
