"""What commands make TLS connections with (cli layer)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ssl

__all__ = ["Trust"]


class Trust(NamedTuple):
    """Whom a command believes, and what it shows.

    Attributes:
        ca: a file with the authorities that vouch for the broker, instead of the system's.
        cert: a file with a certificate to show, for brokers that want one.
        key: a file with its key, where that is another one.
        insecure: whether any certificate will do.

    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure: bool = False

    def context(self) -> ssl.SSLContext:
        """Load the files.

        Raises:
            ValueError: one cannot be used; the text says which, and why.

        """
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ValueError) as problem:
            names = ", ".join(name for name in self[:3] if name)
            raise ValueError(f"cannot use {names}: {problem}") from None

        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE

        return context
