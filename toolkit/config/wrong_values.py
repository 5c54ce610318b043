"""What to write in the place of a value that an option does not take, by what OmegaConf 2.3 says of it."""

from __future__ import annotations

import re

KINDS = (
    (r"could not be converted to Integer", "{key} takes a whole number: {key}=N"),
    (r"could not be converted to Float", "{key} takes a number: {key}=N"),
    (r"is not a valid bool", "write {key}=true or {key}=false"),
    (r"is not a ListConfig, list or tuple", "{key} takes a list: {key}=[A,B]"),
    (r"Cannot assign \w+ to Dict", "write +{key}.NAME=VALUE"),
    (r"field '[^']*' is not Optional", "{key} takes no null: leave it out, or give it a value"),
)


def mend(key: str, why: str) -> str:
    """The fix; empty where the complaint is none that we know."""
    choices = re.search(r"expected one of \[([^\]]*)\]", why)
    if choices is not None:
        return f"write {' or '.join(f'{key}={choice}' for choice in choices.group(1).split(', '))}"
    return next((fix.format(key=key) for pattern, fix in KINDS if re.search(pattern, why)), "")
