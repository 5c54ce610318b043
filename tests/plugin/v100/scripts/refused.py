"""What a process sees that only asks vLLM for its platform; without arguments the library is looked for as it is."""

import sys

if sys.argv[1:]:
    from toolkit.native import library

    library.__file__ = f"{sys.argv[1]}/toolkit/native/library.py"  # an installation without the library
from vllm.platforms import current_platform

print(type(current_platform).__qualname__)
