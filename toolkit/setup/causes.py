"""Known causes of a failed pip, told from what it said."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """A pattern in pip's output and what it means."""

    pattern: str
    why: str
    fix: str


NO_BUILD = (
    "the package index has no build of it for this machine and this Python",
    "use Linux on x86-64 with Python 3.11, 3.12, 3.13 or 3.14, or an index that mirrors PyPI in full",
)
CAUSES = (
    Cause(
        r"No space left on device|Disk quota exceeded|Errno 28|Errno 122",
        "the disk is full",
        "free some space (pip's own cache too: `pip cache purge`) and run the same command again",
    ),
    Cause(
        r"CERTIFICATE_VERIFY_FAILED|SSLError",
        "the package index's certificate was not accepted, as behind a proxy that opens TLS",
        "name the proxy's certificate: PIP_CERT=/path/to/ca.pem",
    ),
    Cause(
        r"ProxyError|407 Proxy",
        "the proxy did not let the request through",
        "check https_proxy, or unset it",
    ),
    Cause(
        r"NewConnectionError|NameResolutionError|Name or service not known|Temporary failure in name resolution"
        r"|Failed to resolve|ConnectTimeout|Read timed out|ReadTimeout|Connection refused|Connection reset"
        r"|Network is unreachable|RemoteDisconnected|IncompleteRead|HTTP error 5\d\d|ERROR: 5\d\d",
        "the package index did not answer",
        "check the network (`pip config list` shows which index is asked) and run the same command again;"
        " what is installed is kept",
    ),
    Cause(
        r"HTTP error 40[13]|ERROR: 40[13]",
        "the package index refused the request",
        "check the index's address and password in pip's configuration",
    ),
    Cause(r"no matching distributions available", *NO_BUILD),  # said in the words of a conflict, where there is none
    Cause(
        r"ResolutionImpossible|\(constraint\)",
        "pip's configuration forbids the version",
        "unset PIP_CONSTRAINT, or look for `constraint` in `pip config list`",
    ),
    Cause(r"No matching distribution found|Could not find a version", *NO_BUILD),
    Cause(r"Permission denied|Read-only file system", "a folder cannot be written", "see the log for its name"),
)

# The package that pip was at, most telling first.
PACKAGE = (
    r"No matching distribution found for ([^\s;(]+)",
    r"satisfies the requirement ([^\s;(]+)",
    r"The user requested ([^\s;(]+)",
    r"Failed to build ([^\s;(]+)",
    r"(?:Collecting|Downloading) ([^\s;(]+)",
)


def cause(said: str) -> Cause | None:
    """The first known cause in the output, or None."""
    return next((known for known in CAUSES if re.search(known.pattern, said)), None)


def package(said: str) -> str:
    """The package that pip failed at, as far as its output tells; "" where it does not."""
    for pattern in PACKAGE:
        found = re.findall(pattern, said)
        if found:
            return str(found[-1])
    return ""
