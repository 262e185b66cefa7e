"""Files on any file system: paths, streams, records of TFRecord files.

    from graphmill.spi.files import open_stream, read_record

All functions accept local paths and URLs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.access.broker import UNRESTRICTED as UNRESTRICTED
    from graphmill.access.broker import Broker as Broker
    from graphmill.access.rules import AccessRules as AccessRules
    from graphmill.files import as_path as as_path
    from graphmill.files import exists as exists
    from graphmill.files import is_dir as is_dir
    from graphmill.files import join as join
    from graphmill.files import list_dir as list_dir
    from graphmill.files import make_dirs as make_dirs
    from graphmill.files import matching as matching
    from graphmill.files import open_reader as open_reader
    from graphmill.files import parent as parent
    from graphmill.files import read_bytes as read_bytes
    from graphmill.files import remove_empty_dir as remove_empty_dir
    from graphmill.files import write as write
    from graphmill.files import write_together as write_together
    from graphmill.files.append import Appender as Appender
    from graphmill.files.local import LocalReader as LocalReader
    from graphmill.files.stream import StreamWriter as StreamWriter
    from graphmill.files.stream import bytes_stream as bytes_stream
    from graphmill.files.stream import check_compression as check_compression
    from graphmill.files.stream import open_stream as open_stream
    from graphmill.files.stream import read_exactly as read_exactly
    from graphmill.files.stream import read_line as read_line
    from graphmill.tf_record import TFRecordWriter as TFRecordWriter
    from graphmill.tf_record import frame as frame
    from graphmill.tf_record import read_record as read_record
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.access.broker": "Broker UNRESTRICTED",
            "graphmill.access.rules": "AccessRules",
            "graphmill.files": (
                "as_path exists is_dir join list_dir make_dirs matching open_reader parent "
                "read_bytes remove_empty_dir write write_together"
            ),
            "graphmill.files.append": "Appender",
            "graphmill.files.local": "LocalReader",
            "graphmill.files.stream": (
                "StreamWriter bytes_stream check_compression open_stream read_exactly read_line"
            ),
            "graphmill.tf_record": "TFRecordWriter frame read_record",
        },
    )
