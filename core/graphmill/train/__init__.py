"""Training: optimizers that add nodes to a graph, the global step, averages, checkpoints.

    w = graphmill.Variable(3.0)
    step = graphmill.train.AdamOptimizer(0.01).minimize(w * w)
    saver = graphmill.train.Saver()

Classes, variable names and files are the same as in `tf.compat.v1.train`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from graphmill.functions.clipping import (
        clip_by_average_norm,
        clip_by_global_norm,
        clip_by_norm,
        clip_by_value,
        global_norm,
    )
    from graphmill.saved.checkpoint import latest_checkpoint, list_variables, load_checkpoint
    from graphmill.summary.summary_iterator import summary_iterator
    from graphmill.train.checkpoint_listener import CheckpointSaverListener
    from graphmill.train.checkpoints.checkpoint_management import (
        checkpoint_exists,
        get_checkpoint_state,
        remove_checkpoint,
    )
    from graphmill.train.checkpoints.saver import Saver
    from graphmill.train.coordinator import Coordinator
    from graphmill.train.global_step import (
        create_global_step,
        get_global_step,
        get_or_create_global_step,
    )
    from graphmill.train.hooks import (
        CheckpointSaverHook,
        LoggingTensorHook,
        NanLossDuringTrainingError,
        NanTensorHook,
        SecondOrStepTimer,
        StopAtStepHook,
    )
    from graphmill.train.learning_rate_decay import (
        cosine_decay,
        cosine_decay_restarts,
        exponential_decay,
        inverse_time_decay,
        linear_cosine_decay,
        natural_exp_decay,
        noisy_linear_cosine_decay,
        piecewise_constant,
        polynomial_decay,
    )
    from graphmill.train.meta_graph import export_meta_graph, import_meta_graph, write_graph
    from graphmill.train.monitored_session import MonitoredSession
    from graphmill.train.monitored_training_session import MonitoredTrainingSession
    from graphmill.train.moving_average import ExponentialMovingAverage
    from graphmill.train.optimizer import Optimizer
    from graphmill.train.optimizers import (
        AdadeltaOptimizer,
        AdagradOptimizer,
        AdamOptimizer,
        FtrlOptimizer,
        GradientDescentOptimizer,
        MomentumOptimizer,
        RMSPropOptimizer,
    )
    from graphmill.train.progress_hooks import ProgressBarHook, StepCounterHook
    from graphmill.train.queue_runner import (
        QueueRunner,
        add_queue_runner,
        start_queue_runners,
    )
    from graphmill.train.scaffold import Scaffold
    from graphmill.train.session_creator import (
        ChiefSessionCreator,
        SessionCreator,
        WorkerSessionCreator,
    )
    from graphmill.train.session_run_hook import (
        SessionRunArgs,
        SessionRunContext,
        SessionRunHook,
        SessionRunValues,
    )
    from graphmill.train.step_hooks import FeedFnHook, FinalOpsHook, GlobalStepWaiterHook
    from graphmill.train.summary_saver_hook import SummarySaverHook

__all__ = [
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "ChiefSessionCreator",
    "Coordinator",
    "ExponentialMovingAverage",
    "FeedFnHook",
    "FinalOpsHook",
    "FtrlOptimizer",
    "GlobalStepWaiterHook",
    "GradientDescentOptimizer",
    "LoggingTensorHook",
    "MomentumOptimizer",
    "MonitoredSession",
    "MonitoredTrainingSession",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "Optimizer",
    "ProgressBarHook",
    "QueueRunner",
    "RMSPropOptimizer",
    "Saver",
    "Scaffold",
    "SecondOrStepTimer",
    "SessionCreator",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "WorkerSessionCreator",
    "add_queue_runner",
    "checkpoint_exists",
    "clip_by_average_norm",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "cosine_decay",
    "cosine_decay_restarts",
    "create_global_step",
    "exponential_decay",
    "export_meta_graph",
    "get_checkpoint_state",
    "get_global_step",
    "get_or_create_global_step",
    "global_norm",
    "import_meta_graph",
    "inverse_time_decay",
    "latest_checkpoint",
    "linear_cosine_decay",
    "list_variables",
    "load_checkpoint",
    "natural_exp_decay",
    "noisy_linear_cosine_decay",
    "piecewise_constant",
    "polynomial_decay",
    "remove_checkpoint",
    "start_queue_runners",
    "summary_iterator",
    "write_graph",
]

_HOMES = {
    "graphmill.summary.summary_iterator": ("summary_iterator",),
    "graphmill.saved.checkpoint": ("latest_checkpoint", "list_variables", "load_checkpoint"),
    "graphmill.train.coordinator": ("Coordinator",),
    "graphmill.functions.clipping": (
        "clip_by_average_norm",
        "clip_by_global_norm",
        "clip_by_norm",
        "clip_by_value",
        "global_norm",
    ),
    "graphmill.train.learning_rate_decay": (
        "cosine_decay",
        "cosine_decay_restarts",
        "exponential_decay",
        "inverse_time_decay",
        "linear_cosine_decay",
        "natural_exp_decay",
        "noisy_linear_cosine_decay",
        "piecewise_constant",
        "polynomial_decay",
    ),
    "graphmill.train.checkpoint_listener": ("CheckpointSaverListener",),
    "graphmill.train.progress_hooks": (
        "ProgressBarHook",
        "StepCounterHook",
    ),
    "graphmill.train.step_hooks": (
        "FeedFnHook",
        "FinalOpsHook",
        "GlobalStepWaiterHook",
    ),
    "graphmill.train.summary_saver_hook": ("SummarySaverHook",),
    "graphmill.train.meta_graph": ("export_meta_graph", "import_meta_graph", "write_graph"),
    "graphmill.train.queue_runner": ("QueueRunner", "add_queue_runner", "start_queue_runners"),
    "graphmill.train.global_step": (
        "create_global_step",
        "get_global_step",
        "get_or_create_global_step",
    ),
    "graphmill.train.hooks": (
        "CheckpointSaverHook",
        "LoggingTensorHook",
        "NanLossDuringTrainingError",
        "NanTensorHook",
        "SecondOrStepTimer",
        "StopAtStepHook",
    ),
    "graphmill.train.monitored_session": ("MonitoredSession",),
    "graphmill.train.monitored_training_session": ("MonitoredTrainingSession",),
    "graphmill.train.moving_average": ("ExponentialMovingAverage",),
    "graphmill.train.optimizer": ("Optimizer",),
    "graphmill.train.optimizers": tuple(name for name in __all__ if name.endswith("Optimizer")),
    "graphmill.train.checkpoints.checkpoint_management": (
        "checkpoint_exists",
        "get_checkpoint_state",
        "remove_checkpoint",
    ),
    "graphmill.train.checkpoints.saver": ("Saver",),
    "graphmill.train.scaffold": ("Scaffold",),
    "graphmill.train.session_creator": (
        "ChiefSessionCreator",
        "SessionCreator",
        "WorkerSessionCreator",
    ),
    "graphmill.train.session_run_hook": (
        "SessionRunArgs",
        "SessionRunContext",
        "SessionRunHook",
        "SessionRunValues",
    ),
}

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
