"""`summary_iterator`: read the events of a file that a `FileWriter` wrote.

Semantics: tensorflow/python/summary/summary_iterator.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from graphmill.errors import DataLossError
from graphmill.proto.event_pb2 import Event
from graphmill.tf_record import tf_record_iterator

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator


def summary_iterator(path: str | os.PathLike[str]) -> Iterator[Event]:
    """Yield the events of an event file as `Event` messages, the oldest first.

        from pathlib import Path

        with graphmill.summary.FileWriter("logs") as writer:
            writer.add_scalar("loss", 0.5, step=1)
        (path,) = Path("logs").iterdir()
        for event in graphmill.train.summary_iterator(path):
            for value in event.summary.value:
                print(event.step, value.tag, value.simple_value)  # 1 loss 0.5

    Args:
        path: the path or URL of the file.

    Raises:
        NotFoundError: the file does not exist.
        DataLossError: the file is truncated or damaged, or holds other records than events.
    """
    for position, record in enumerate(tf_record_iterator(path)):
        try:
            event = Event.FromString(record)
        except DecodeError as error:
            raise DataLossError(
                f"record {position} of {path} is not an event: {error}; event files are named "
                "events.out.tfevents…"
            ) from error
        yield event
