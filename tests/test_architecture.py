"""ARCHITECTURE.md, pyproject.toml and docs/ say what the tree says."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

import measurebayes as mb

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
if not ARCHITECTURE.exists():
    pytest.skip("not in a source tree", allow_module_level=True)

TEXT = ARCHITECTURE.read_text(encoding="utf-8")
LAYERS = re.findall(r"^\d+\. `(\w+)`:", TEXT, re.MULTILINE)
PACKAGE = sorted((ROOT / "measurebayes").rglob("*.py"))
MODELS = sorted((ROOT / "models").glob("*.py"))


def relative(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imported(file: Path) -> set[str]:
    """Full names of what a file imports of this package, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(file)}: relative import"
            if node.module == "measurebayes":
                names |= {f"measurebayes.{alias.name}" for alias in node.names}
            elif node.module:
                names.add(node.module)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "mb":
            names.add(f"measurebayes.{node.attr}")  # import measurebayes as mb; mb.fit
    return {name for name in names if name.split(".")[0] == "measurebayes"}


def layer_of(name: str) -> str | None:
    """Layer that a full name belongs to; None for the package itself (its version)."""
    first = name.split(".")[1] if "." in name else ""
    if first in LAYERS:
        return first
    if first in mb._PUBLIC:
        return layer_of(mb._PUBLIC[first][0])
    assert first in ("", "__version__"), f"{name} is in no layer"
    return None


def test_map_has_every_module_once_and_no_other() -> None:
    mapped = re.findall(r"^- `([\w/]+\.py)`:", TEXT, re.MULTILINE)
    assert mapped == sorted(relative(file) for file in [*PACKAGE, *MODELS])


def test_every_module_says_what_it_is() -> None:
    silent = [
        relative(file)
        for file in [*PACKAGE, *MODELS]
        if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_every_part_of_the_package_is_a_layer() -> None:
    parts = {file.relative_to(ROOT / "measurebayes").parts[0] for file in PACKAGE}
    parts = {part.removesuffix(".py") for part in parts} - {"__init__", "__main__"}
    assert parts | {"models"} == set(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_layer_imports_only_those_above(layer: str) -> None:
    own = LAYERS.index(layer)
    folder = ROOT / "models" if layer == "models" else ROOT / "measurebayes" / layer
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    assert files
    below = {
        f"{relative(file)} imports {name}"
        for file in files
        for name in imported(file)
        if (target := layer_of(name)) is not None and LAYERS.index(target) > own
    }
    assert below == set()


def test_model_files_import_nothing_of_the_package_but_each_other() -> None:
    names = {name for file in MODELS for name in imported(file)}
    assert all(name.startswith("measurebayes.models") for name in names), names


def test_packages_in_pyproject_are_those_of_the_tree() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {file.parent for file in PACKAGE}
    expected = {relative(folder).replace("/", ".") for folder in folders} | {"measurebayes.models"}
    assert set(setuptools["packages"]) == expected
    assert setuptools["package-dir"] == {"measurebayes.models": "models"}


# Imported modules that come with a declared package of another name.
COMES_WITH = {
    "arviz_base": "arviz",
    "arviz_stats": "arviz",
    "inspect_ai": "inspect-ai",
    "jaxlib": "jax",
    "markupsafe": "jinja2",
    "pytensor": "pymc",
    "yaml": "pyyaml",
}


def test_every_imported_package_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [e for n, e in project["optional-dependencies"].items() if n not in ("all", "dev")]
    wanted = [*project["dependencies"], *(package for extra in extras for package in extra)]
    declared = {re.split(r"[<>=\[ ]", line)[0].lower() for line in wanted}
    found = set()
    for file in PACKAGE:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    found -= {*sys.stdlib_module_names, "measurebayes"}
    assert {COMES_WITH.get(name, name).lower() for name in found} - declared == set()


def test_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == mb.__version__


def test_documents_made_from_code_are_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("documents", ROOT / "scripts" / "documents.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.documents()
    stale = [relative(f) for f, text in made.items() if not f.exists() or f.read_text() != text]
    assert stale == [], "run `make docs`"
    for folder in (module.PAGES, module.FORMATS):
        assert {f for f in made if f.parent == folder} == set(folder.glob("*.md"))


@pytest.mark.parametrize("limit", [400])
def test_modules_stay_short(limit: int) -> None:
    long = {relative(f): n for f in PACKAGE if (n := len(f.read_text().splitlines())) > limit}
    assert long == {}
