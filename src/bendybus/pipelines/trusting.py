"""Whom a pipeline trusts, also where it runs on machines that lack its files."""

import ssl

from bendybus.pipelines.failure import PipelineFailed


def trusting(authority: str) -> ssl.SSLContext:
    """Return what trusts the certificates of an authority that is given as PEM text."""
    try:
        return ssl.create_default_context(cadata=authority)
    except ssl.SSLError:
        raise PipelineFailed("--authority holds no certificate in PEM form") from None
