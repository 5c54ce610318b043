"""Rules about releases of packages that are known to do wrong on a V100."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.planning.geometry.model import ModelGeometry
from toolkit.planning.geometry.quantization import Scheme
from toolkit.planning.known_faults import FAULTS, WRONG_OUTPUT, KnownFault, When, dotted
from toolkit.planning.plan import Severity
from toolkit.planning.rules.arguments import takes_images
from toolkit.planning.rules.gpus import on_gpu, version_of
from toolkit.planning.rules.offload import offloads
from toolkit.planning.rules.rule import Context, Problem, Rule, not_looked_at, unknown

PACKAGES = "the installed packages were"
AWQ = "awq"
INTEGERS = (Scheme.int4_group, Scheme.int8_channel)


def known_wrong_output(context: Context) -> Iterator[Problem]:
    """A release whose answers are wrong without a word is worse than one that fails."""
    if on_gpu(context) and context.machine.software is None:
        yield not_looked_at("packages", PACKAGES)
    for fault, version in _installed(context, WRONG_OUTPUT):
        if context.geometry is None:
            yield unknown(fault.package, f"{version} answers wrongly {fault.when.value}, and the model is not known")
        elif _computes_wrongly(fault.when, context.geometry, context.config):
            yield Problem(
                fault.package,
                f"{version} gives wrong output {fault.when.value}: {fault.what} ({fault.reference})",
                f"use {fault.package} {dotted(fault.mended)} or newer",
            )


def known_fault(context: Context) -> Iterator[Problem]:
    """What others found out about a release need not be found out again."""
    for fault, version in _installed(context, FAULTS):
        if _shows(fault.when, context):
            yield Problem(
                fault.package,
                f"{version} has a known fault that shows {fault.when.value}: {fault.what} ({fault.reference})",
                f"use {fault.package} {dotted(fault.mended)} or newer",
            )


def _installed(context: Context, faults: Sequence[KnownFault]) -> Iterator[tuple[KnownFault, str]]:
    """Those of the faults whose release is installed, with its version; one that is no number counts as the oldest."""
    software = context.machine.software
    if not on_gpu(context) or software is None:
        return
    for fault in faults:
        for copy in software.distributions:
            if copy.name == fault.package and fault.since <= version_of(copy.version) < fault.mended:
                yield fault, copy.version


def _computes_wrongly(when: When, geometry: ModelGeometry, config: DeploymentConfig) -> bool:
    """Whether a deployment has what makes output wrong."""
    if when is When.offload:
        return geometry.recurrent is not None and offloads(config)
    return geometry.quantization.container == AWQ


def _shows(when: When, context: Context) -> bool:
    """Whether a deployment has what a fault needs; where there is no model yet, it may."""
    if when is When.prefix_caching:
        return context.config.limits.prefix_caching
    geometry = context.geometry
    if geometry is None or when is When.always:
        return True
    return context.config.speculative.method == "mtp" if when is When.drafts else _has(geometry, when)


def _has(geometry: ModelGeometry, when: When) -> bool:
    """The same where the model alone decides."""
    match when:
        case When.awq:
            return geometry.quantization.container == AWQ
        case When.integers:
            return geometry.quantization.scheme in INTEGERS
        case When.images:
            return takes_images(geometry)
        case When.heads_of_128:
            return geometry.attention.head_dim == 128
        case _:
            return geometry.attention.head_dim != 256


RULES = (
    Rule(
        "known-wrong-output",
        "No release is known to answer wrongly",
        Severity.refuse,
        known_wrong_output,
        "docs/rules.md, section 'Known faults of releases'",
    ),
    Rule(
        "known-fault",
        "No release is known to fail",
        Severity.warn,
        known_fault,
        "docs/rules.md, section 'Known faults of releases'",
    ),
)
