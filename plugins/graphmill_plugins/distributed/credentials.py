"""`Credentials`: TLS certificates for the tasks and clients of a cluster.

TensorFlow's protocol has no authentication. With these settings a server accepts only
TLS connections; with `tls_ca`, only from clients with a certificate of that authority (mutual TLS).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphmill.errors import InvalidArgumentError
from graphmill.spi import plugin_settings

if TYPE_CHECKING:
    from collections.abc import Collection

    import grpc

    from graphmill.spi.protos import proto

SETTINGS: Final = ("tls_certificate", "tls_private_key", "tls_ca")
_VARIABLE: Final = "GRAPHMILL_{}"


class Credentials(NamedTuple):
    """The certificate a process presents and the authorities it trusts, in PEM form.

    Attributes:
        certificate, private_key: its own; a client may have none (empty).
        authority: the certificates of trusted authorities; empty for the system's.
    """

    certificate: bytes = b""
    private_key: bytes = b""
    authority: bytes = b""

    def of_server(self) -> grpc.ServerCredentials:
        """Return a server's credentials; an authority makes it require certificates of clients."""
        import grpc  # `paths_of` works without it

        pair = (self.private_key, self.certificate)
        return grpc.ssl_server_credentials(
            [pair], self.authority or None, require_client_auth=bool(self.authority)
        )

    def of_client(self) -> grpc.ChannelCredentials:
        """Return the credentials of a client."""
        import grpc

        return grpc.ssl_channel_credentials(
            self.authority or None, self.private_key or None, self.certificate or None
        )


def credentials_of(config: proto.ConfigProto | None, *, is_server: bool = False) -> Any:
    """Return the credentials that a config or the environment names; None for none.

    Raises:
        InvalidArgumentError: a file cannot be read, or only one of certificate and key is given.
    """
    paths = paths_of(config)
    if not any(paths):
        return None
    certificate, private_key, authority = map(_read, SETTINGS, paths)
    if bool(certificate) != bool(private_key) or (is_server and not certificate):
        raise InvalidArgumentError(
            "TLS needs both tls_certificate and tls_private_key of plugin distributed"
            + ("; a server has its own" if is_server else ", or neither where only tls_ca is given")
        )
    return Credentials(certificate, private_key, authority)


def paths_of(config: proto.ConfigProto | None) -> list[Any]:
    """Return the file names for `SETTINGS`, from a config or else from the environment."""
    settings = plugin_settings(config, "distributed")
    return [
        settings.get(name) or os.environ.get(_VARIABLE.format(name.upper()), "")
        for name in SETTINGS
    ]


def new_channel(
    address: str,
    options: Collection[Any],
    compression: Any = None,
    credentials: Credentials | None = None,
) -> grpc.Channel:
    """Return a channel to a server, with TLS if there are credentials."""
    import grpc

    if credentials is None:
        return grpc.insecure_channel(address, tuple(options), compression)
    return grpc.secure_channel(address, credentials.of_client(), tuple(options), compression)


def _read(name: str, path: object) -> bytes:
    if not path:
        return b""
    if not isinstance(path, str):
        raise InvalidArgumentError(
            f"{name} of plugin distributed is {path!r}; expected a file name"
        )
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgumentError(
            f"{name} of plugin distributed names {path!r}, which cannot be read: {error.strerror}"
        ) from error
