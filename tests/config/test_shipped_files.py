"""Every file under conf/ and recipes/ composes, is short, and says what it is for."""

import dataclasses
import json
from pathlib import Path

import cli
import jsonschema
import pytest
import yaml
from composing import compose
from omegaconf import OmegaConf

from toolkit.config.docs import recipe_schema
from toolkit.config.safety import reaches
from toolkit.config.schema import verbs
from toolkit.config.schema.recipe import RecipeStatus
from toolkit.config.search_path import shipped_conf

CONF = shipped_conf()
FILES = sorted(path.relative_to(CONF) for path in [*CONF.glob("*.yaml"), *CONF.glob("*/*.yaml")])
CHOICES = [path for path in FILES if path.parent != Path() and path.parts[0] != "recipe"]
RECIPES = [path for path in FILES if path.parts[0] == "recipe"]
VERBS = [path.stem for path in FILES if path.parent == Path() and path.stem != "deployment"]
SCHEMAS = {field.name for field in dataclasses.fields(verbs.DeploymentConfig)}


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_each_choice_composes_alone(choice):
    group, name = choice.parts[0], choice.stem
    values = yaml.safe_load((CONF / choice).read_text(encoding="utf-8"))
    asked = [f"{group}.{key}=given" for key, value in values.items() if value == "???"]  # for the user to say
    composed = compose(f"{group}='{name}'", *asked)
    written = {key: origin for key, origin in composed.origins.items() if key.startswith(f"{group}.")}
    assert str(CONF / choice) in written.values() or (CONF / choice).read_text().rstrip().endswith("{}")
    assert set(written.values()) <= {str(CONF / choice), "default", *(f"command line: {line}" for line in asked)}


@pytest.mark.parametrize("verb", ["plan", "serve"])
@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_each_recipe_composes_with_each_verb_that_takes_one(recipe, verb):
    assert compose(f"+recipe={recipe.stem}", verb=verb).recipe == recipe.stem


@pytest.mark.parametrize("verb", VERBS)
def test_each_verbs_configuration_composes(verb):
    result = cli.call(verb, "--cfg", "job")
    assert (result.returncode, result.stderr) == (0, "")
    assert yaml.safe_load(result.stdout)["output"] == "text"


@pytest.mark.parametrize("file", FILES, ids=str)
def test_each_file_is_short_and_explains_itself(file):
    lines = (CONF / file).read_text(encoding="utf-8").splitlines()
    comments = [line for line in lines if line.startswith("# ") and not line.startswith(("# @", "# yaml-language"))]
    assert len(lines) <= 40
    assert comments, "a line that says what the file is for"
    if file in RECIPES or file.stem in VERBS:
        assert any(line.startswith("# Run me with: python -m toolkit.") for line in comments)
    assert all(len(line) <= 120 for line in lines)


@pytest.mark.parametrize("file", [*CHOICES, *RECIPES], ids=str)
def test_a_shipped_file_holds_to_what_is_asked_of_a_strangers(file):
    text = (CONF / file).read_text(encoding="utf-8")
    assert list(reaches(str(file.with_suffix("")), text, yaml.safe_load(text))) == []


def test_every_group_has_a_schema_and_a_default():
    groups = {path.parts[0] for path in CHOICES}
    assert groups <= SCHEMAS
    listed = {next(iter(entry)) for entry in OmegaConf.load(CONF / "deployment.yaml").defaults}
    assert listed == groups


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_each_recipe_fits_the_schema_for_editors(recipe):
    values = yaml.safe_load((CONF / recipe).read_text(encoding="utf-8"))
    jsonschema.validate(values, recipe_schema(), cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"limits": {"max_modle_len": 1}}, "Additional properties are not allowed ('max_modle_len' was unexpected)"),
        ({"limits": {"max_model_len": "1"}}, "'1' is not of type 'integer'"),
        ({"recipe": {"status": "good"}}, "'good' is not one of ['verified', 'unverified', 'unsupported']"),
        ({"limit": {}}, "Additional properties are not allowed ('limit' was unexpected)"),
        ({"output": "json"}, "Additional properties are not allowed ('output' was unexpected)"),
        ({"defaults": "smollm2"}, "'smollm2' is not of type 'array'"),
        ({"defaults": [{"override /dcp": 2}]}, "{'override /dcp': 2} is not valid under any of the given schemas"),
    ],
)
def test_the_schema_for_editors_marks_mistakes(values, message):
    found = [error.message for error in jsonschema.Draft202012Validator(recipe_schema()).iter_errors(values)]
    assert found == [message]


def test_the_schema_for_editors_is_one():
    jsonschema.Draft202012Validator.check_schema(recipe_schema())
    json.dumps(recipe_schema())


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_each_recipe_points_editors_to_the_schema(recipe):
    line = (CONF / recipe).read_text(encoding="utf-8").splitlines()[1]
    prefix = "# yaml-language-server: $schema="
    assert line.startswith(prefix)
    assert ((CONF / recipe).resolve().parent / line.removeprefix(prefix)).resolve().is_file()


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_each_recipe_says_its_status_with_what_shows_it(recipe):
    said = compose(f"+recipe={recipe.stem}").config.recipe
    if said.status is RecipeStatus.verified:
        assert said.verified_on
        assert said.evidence
        assert (cli.REPOSITORY / said.evidence).exists()
    else:
        assert said.reason


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_the_command_in_a_recipes_header_is_its_own(recipe):
    text = (CONF / recipe).read_text(encoding="utf-8")
    command = next(line for line in text.splitlines() if line.startswith("# Run me with: "))
    assert command.split()[-1] == f"+recipe={recipe.stem}" or f"+recipe={recipe.stem} " in command
