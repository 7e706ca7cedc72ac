"""The files that a forge reads: workflows, forms for issues, updates of packages. They are read as it reads them.

The schemas are those of the package check-jsonschema, and rules that no schema holds follow as tests.
"""

import json
import re
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import pytest
from jsonschema import Draft7Validator
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
FORGE = ROOT / ".github"
SCHEMAS = {
    "workflows/*.yml": "github-workflows",
    "dependabot.yml": "dependabot",
    "ISSUE_TEMPLATE/config.yml": "github-issue-config",
    "ISSUE_TEMPLATE/[!c]*.yml": "github-issue-forms",
}
FILES = {path: schema for pattern, schema in SCHEMAS.items() for path in sorted(FORGE.glob(pattern))}
WORKFLOWS = [path for path, schema in FILES.items() if schema == "github-workflows"]
FORMS = [path for path, schema in FILES.items() if schema == "github-issue-forms"]
MANIFESTS = {
    "github-actions": ("workflows",),
    "pip": ("pyproject.toml", "requirements.txt"),
    "npm": ("package.json",),
    "docker": ("Dockerfile",),
    "docker-compose": ("compose.yaml",),
    "maven": ("pom.xml",),
}
"""The files from which a forge updates packages, by the name of their kind."""


def load(path):
    """Return a file as YAML 1.2, in which `on` is a text. A key that stands twice is an error."""
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def job_steps(path):
    return [step for job in load(path)["jobs"].values() for step in job["steps"]]


def name(path):
    return str(path.relative_to(FORGE))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file_has_the_form_that_the_forge_expects(path):
    schema = distribution("check-jsonschema").locate_file(f"check_jsonschema/builtin_schemas/vendor/{FILES[path]}.json")
    validator = Draft7Validator(json.loads(Path(schema).read_text(encoding="utf-8")))
    assert [error.message for error in validator.iter_errors(load(path))] == []


def test_every_file_of_the_forge_is_read():
    assert {name(path) for path in FORGE.rglob("*") if path.is_file()} == {
        "PULL_REQUEST_TEMPLATE.md",
        "dependabot.yml",
        "ISSUE_TEMPLATE/bug.yml",
        "ISSUE_TEMPLATE/config.yml",
        "ISSUE_TEMPLATE/wish.yml",
        "workflows/ci.yml",
        "workflows/nightly.yml",
        "workflows/pins.yml",
        "workflows/release.yml",
    }
    assert len(FILES) == 8


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_every_action_is_pinned_by_its_commit(path):
    references = re.findall(r"uses: *(\S+)(.*)", path.read_text(encoding="utf-8"))
    assert references
    for action, comment in references:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment)
    assert len(references) == sum("uses" in step for step in job_steps(path))


def test_one_action_has_one_commit():
    pins = {}
    for path in WORKFLOWS:
        for step in job_steps(path):
            action, _, commit = step.get("uses", "").partition("@")
            pins.setdefault(action, set()).add(commit)
    assert {action: commits for action, commits in pins.items() if len(commits) > 1} == {}


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_every_job_has_a_limit_and_few_rights(path):
    workflow = load(path)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    for job in workflow["jobs"].values():
        assert 0 < job["timeout-minutes"] <= 360
    for step in job_steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_every_change_is_checked_with_read_rights_only():
    path = FORGE / "workflows/ci.yml"
    workflow = load(path)
    assert workflow["on"] == {"push": {"branches": ["**"]}, "pull_request": None}
    assert workflow["permissions"] == {"contents": "read"}
    assert all("permissions" not in job for job in workflow["jobs"].values())
    assert workflow["concurrency"]["cancel-in-progress"] is True
    assert "github.ref" in workflow["concurrency"]["group"]

    commands = " ".join(step.get("run", "") for step in job_steps(path))
    for target in ("lint", "test"):
        assert re.search(rf"\bmake {target}\b", commands)
        assert subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, check=False).returncode == 0
    assert [step["shell"] for step in job_steps(path) if "tee" in step.get("run", "")] == ["bash"]  # its failure counts
    [upload] = [step for step in job_steps(path) if step.get("uses", "").startswith("actions/upload-artifact@")]
    assert upload["if"] == "failure()"


@pytest.mark.parametrize("path", FORMS, ids=name)
def test_a_form_asks_questions_that_the_forge_accepts(path):
    form = load(path)
    questions = [entry for entry in form["body"] if entry["type"] != "markdown"]
    assert questions
    assert any(question.get("validations", {}).get("required") for question in questions)
    for texts in ([question["id"] for question in questions], [entry["attributes"]["label"] for entry in questions]):
        assert len(texts) == len(set(texts))
    assert all(re.fullmatch(r"[\w-]+", question["id"]) for question in questions)


def test_a_bug_comes_with_the_output_of_the_doctor():
    [question] = [entry for entry in load(FORGE / "ISSUE_TEMPLATE/bug.yml")["body"] if entry.get("id") == "doctor"]
    assert "hubbub doctor" in question["attributes"]["label"]
    assert question["validations"]["required"] is True


def test_every_folder_with_a_manifest_gets_updates():
    updates = {}
    for entry in load(FORGE / "dependabot.yml")["updates"]:
        updates[entry["package-ecosystem"]] = {*entry.get("directories", ()), entry.get("directory")} - {None}

    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not files:
        pytest.skip("a source distribution has no history")
    for kind, manifests in MANIFESTS.items():
        paths = [Path(path) for path in files if Path(path).name in manifests]
        folders = {f"/{path.parent}".removesuffix(".") for path in paths}
        assert updates[kind] == (folders or {"/"}), kind
    assert updates.keys() == MANIFESTS.keys()


@pytest.mark.parametrize("page", ["CODE_OF_CONDUCT.md", ".github/PULL_REQUEST_TEMPLATE.md"])
def test_the_pages_of_the_forge_link_to_pages_that_exist(page):
    links = re.findall(r"\]\(([\w./#-]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / page).parent.joinpath(link.partition("#")[0]).exists()] == []
