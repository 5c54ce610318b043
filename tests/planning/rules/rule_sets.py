"""All cases of all rules, and the severities of those that do not refuse."""

import cpu_cases
import doctor_cases
import extension_cases
import fault_cases
import gpu_cases
import layout_cases
import member_cases
import model_cases
import offload_cases
import parser_cases
import place_cases
import recipe_cases
import route_cases
import tensor_cases
import unplanned_cases
import value_cases
import variable_cases
import writing_cases

SETS = (
    recipe_cases,
    value_cases,
    variable_cases,
    cpu_cases,
    writing_cases,
    unplanned_cases,
    tensor_cases,
    place_cases,
    model_cases,
    layout_cases,
    gpu_cases,
    doctor_cases,
    fault_cases,
    extension_cases,
    member_cases,
    offload_cases,
    parser_cases,
    route_cases,
)
CASES = [case for part in SETS for case in part.CASES]
SEVERITIES = {rule: severity for part in SETS for rule, severity in part.SEVERITIES.items()}
