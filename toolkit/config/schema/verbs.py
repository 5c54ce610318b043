"""The root of each verb's configuration: the deployment, and what the verb itself needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Optional

from toolkit.config.schema import MISSING
from toolkit.config.schema.checkpoint import CheckpointConfig
from toolkit.config.schema.dcp import DcpConfig
from toolkit.config.schema.engine import EngineConfig
from toolkit.config.schema.hardware import HardwareConfig
from toolkit.config.schema.kv import KvConfig
from toolkit.config.schema.launcher import LauncherConfig
from toolkit.config.schema.limits import LimitsConfig
from toolkit.config.schema.machine import MachineConfig
from toolkit.config.schema.overlay import OverlayConfig
from toolkit.config.schema.recipe import RecipeConfig
from toolkit.config.schema.server import ServerConfig
from toolkit.config.schema.speculative import SpeculativeConfig
from toolkit.config.schema.switches import SwitchesConfig
from toolkit.config.schema.views import ViewsConfig


class Output(Enum):
    """How a verb prints."""

    text = "text"
    json = "json"


class PlanOutput(Enum):
    """How a plan is printed."""

    text = "text"
    json = "json"
    html = "html"


class Until(Enum):
    """When `serve` returns."""

    stopped = "stopped"
    ready = "ready"
    answered = "answered"


@dataclass
class DeploymentConfig:
    """Everything that a recipe can set."""

    recipe: RecipeConfig = field(default_factory=RecipeConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    overlay: OverlayConfig = field(default_factory=OverlayConfig)
    kv: KvConfig = field(default_factory=KvConfig)
    dcp: DcpConfig = field(default_factory=DcpConfig)
    speculative: SpeculativeConfig = field(default_factory=SpeculativeConfig)
    switches: SwitchesConfig = field(default_factory=SwitchesConfig)
    hardware: HardwareConfig = field(default_factory=HardwareConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    launcher: LauncherConfig = field(default_factory=LauncherConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    server: ServerConfig = field(default_factory=ServerConfig)
    views: ViewsConfig = field(default_factory=ViewsConfig)


@dataclass
class PlanConfig(DeploymentConfig):
    """`plan`: a deployment, and how to print it."""

    output: PlanOutput = PlanOutput.text
    """`text`, `json`, or `html` (a page that needs nothing else)."""
    html: Optional[str] = None
    """A file that the page is written to besides."""
    compare: Optional[str] = None
    """Another recipe: what differs from it, and what that buys; the command line's other values hold for both."""
    fit: bool = False
    """Propose changes that make a plan fit which is refused for its size."""
    machine: MachineConfig = field(default_factory=MachineConfig)


@dataclass
class DoctorConfig(DeploymentConfig):
    """`doctor`: a machine, and a deployment if the command line says anything of one."""

    output: Output = Output.text
    """`text` or `json`; the JSON document can be saved and used as machine.facts_file."""
    machine: MachineConfig = field(default_factory=MachineConfig)


@dataclass
class EngineRunConfig(DeploymentConfig):
    """What the verbs that start an engine have in common."""

    output: Output = Output.text
    """`text` or `json`."""
    question: str = "What is the capital of France? Answer in English."
    """The chat message that proves that the server answers."""
    runs: str = ""
    """Folder that holds run folders; empty for the user's state folder."""


@dataclass
class ServeConfig(EngineRunConfig):
    """`serve`: a deployment, and how far to go."""

    until: Until = Until.stopped
    """`stopped` stays in front until Ctrl-C; `ready` and `answered` stop the engine again at that point."""
    dry_run: bool = False
    """Print the plan and start nothing."""
    receipt: Optional[str] = None
    """A receipt.json to start again from: its configuration is used, and what differs on this machine is said."""


@dataclass
class CalibrateConfig(EngineRunConfig):
    """`calibrate`: a deployment whose keys and values are measured on prompts, and where the scale pack goes."""

    folder: str = ""
    """New folder for the scale pack, its report and its picture; empty for one below the user's data folder."""
    artifact: str = ""
    """The pack's name; empty for one made of the model, the prompts and the time."""
    prompts: Optional[str] = None
    """JSONL file of prompts, each line {"prompt": TEXT} or {"messages": [...]}; null for the built-in set."""
    prompts_sha256: Optional[str] = None
    """SHA-256 that the set of prompts must have."""
    max_tokens: int = 16
    """Tokens generated for each prompt, so that what decoding stores is measured as well."""


@dataclass
class RunsConfig:
    """`status` and `stop`: which run."""

    output: Output = Output.text
    """`text` or `json`."""
    runs: str = ""
    """Folder that holds run folders; empty for the user's state folder."""
    run: Optional[str] = None
    """The run's name; empty for all that are alive."""


@dataclass
class MaterializeConfig(DeploymentConfig):
    """`materialize`: a deployment whose model view is made."""

    output: Output = Output.text
    """`text` or `json`."""
    dry_run: bool = False
    """Print what the view would be and make nothing."""


@dataclass
class VerifyConfig:
    """`verify`: which views are read again, byte by byte."""

    output: Output = Output.text
    """`text` or `json`."""
    views: ViewsConfig = field(default_factory=ViewsConfig)
    view: Optional[str] = None
    """A view's name; empty for all in the store."""
    fast: bool = False
    """Take the hash of the last verification for files whose inode, size and modification time are the same."""
    repair: bool = False
    """Make again what is the view's own; what is the base's is named."""
    threads: int = 0
    """Files that are read at once; 0 for one a processor, eight at most."""


@dataclass
class GcConfig:
    """`gc`: what of the view store is removed, and which runs that have ended."""

    output: Output = Output.text
    """`text` or `json`."""
    views: ViewsConfig = field(default_factory=ViewsConfig)
    dry_run: bool = False
    """Print what would be freed and remove nothing."""
    keep_current: bool = False
    """Keep the view that `current` points to as well."""
    runs: str = ""
    """Folder that holds run folders; empty for the user's state folder."""
    keep_runs: Optional[int] = None
    """Remove ended runs but so many of the newest; null, with keep_run_days=null, leaves all runs alone."""
    keep_run_days: Optional[float] = None
    """Remove runs that ended earlier than so many days ago; where both limits are set, a run must be beyond both."""


@dataclass
class BuildConfig:
    """`build`: the native wheel, and then its checks."""

    output: Output = Output.text
    """`text` or `json`."""
    folder: str = "dist"
    """Where the wheel and its package-manifest.json go."""
    jobs: int = 0
    """Compilers at once; 0 for one a processor."""


@dataclass
class CheckWheelConfig:
    """`check_wheel`: the checks alone, on any wheel."""

    output: Output = Output.text
    """`text` or `json`; the JSON document is the wheel's package manifest."""
    wheel: str = MISSING
    """The wheel file."""


@dataclass
class ReportConfig:
    """`report`: what the native kernels need, and how long a V100 takes, from machine code alone."""

    output: Output = Output.text
    """`text` or `json`."""
    library: str = ""
    """The native library; empty for the one that this checkout built."""
    kernels: str = "*"
    """Names of the kernels to show, with * and ?; all are checked."""
    renew: bool = False
    """Write docs/evidence/static_report.jsonl anew."""
