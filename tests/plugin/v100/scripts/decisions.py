"""The decision in a real process for each environment on the command line (a JSON list of variable settings)."""

import json
import os
import sys

from toolkit.plugin.platform.devices import visible_capabilities
from toolkit.plugin.platform.entry import decide_here, platform_class

answers = []
for settings in json.loads(sys.argv[1]):
    for name in ("VOLTA_PLATFORM", "CUDA_VISIBLE_DEVICES", "VOLTA_TEST_GPUS"):
        os.environ.pop(name, None)
    os.environ.update(settings)  # reaches the stub's getenv too
    decision = decide_here(os.environ)
    found = visible_capabilities(os.environ)
    answers.append([decision.outcome.value, decision.reason, platform_class(), found])
print(json.dumps(answers))
