"""Writes what the documents take from the code: docs/models/, tables of formats and codes, the map.

python scripts/documents.py
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from measurebayes.data.lint_codes import CODES
from measurebayes.data.readers import READERS, Reader
from measurebayes.program.registry import ModelFile, get_model, model_names

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "models"
FORMATS = ROOT / "docs" / "formats"
CODE_SECTIONS = ("Equation",)


def page(model: ModelFile) -> str:
    """Return the page of a model, in Markdown."""
    parts = [
        f"# {model.name}",
        f"*{model.title}*",
        f"Made from [models/{model.name}.py](../../models/{model.name}.py) by `make docs`.",
    ]
    for head, body in model.sections.items():
        parts += [f"## {head}", f"```text\n{body}\n```" if head in CODE_SECTIONS else body]
    if model.offered:
        parts += ["## Options", option_table(model)]
    parts += ["## Priors", prior_table(model), "## The model text"]
    parts += [f"```python\n{model_text(model.source)}\n```", "## Use"]
    other = model.variants()[-1]
    chosen = "".join(f", {n}={v!r}" for n, v in other.options.items()).replace("'", '"')
    python = [f'fit = mb.fit("{model.name}", runs, seed=1)']
    shell = [
        f"measurebayes describe {model.name} DATA",
        f"measurebayes fit {model.name} DATA --seed 1 -o {model.name}.nc",
        f"measurebayes copy {model.name} my_model.py",
    ]
    if model.offered:
        python.append(f'fit = mb.fit("{model.name}", runs{chosen}, seed=1)')
        shell.insert(2, f"measurebayes fit {other.label} DATA --seed 1 -o {model.name}_2.nc")
    for language, lines in (("python", python), ("sh", shell)):
        parts.append("\n".join([f"```{language}", *lines, "```"]))
    return "\n\n".join(parts) + "\n"


def prior_table(model: ModelFile) -> str:
    """Return names, numbers and the comments that stand beside them in the file."""
    comments = dict(re.findall(r'^    "(\w+)": [^#\n]*#\s*(.*)$', model.source, re.MULTILINE))
    lines = ["| name | value | meaning |", "|---|---|---|"]
    lines += [f"| `{n}` | {v:g} | {comments.get(n, '')} |" for n, v in model.priors.items()]
    return "\n".join(lines)


def option_table(model: ModelFile) -> str:
    """Return names and values, the default first, and the comments that stand beside them."""
    comments = dict(re.findall(r'^    "(\w+)": [^#\n]*#\s*(.*)$', options_of(model), re.MULTILINE))
    lines = ["| name | values, the default first | meaning |", "|---|---|---|"]
    for name, offer in model.offered.items():
        words = [f"`{w}`" for w in offer] if isinstance(offer, tuple) else [f"{offer}", "any other"]
        lines.append(f"| `{name}` | {', '.join(words)} | {comments.get(name, '')} |")
    return "\n".join(lines)


def options_of(model: ModelFile) -> str:
    """Return the lines of OPTIONS in the file."""
    return model.source.partition("\nOPTIONS = {\n")[2].partition("\n}\n")[0]


def model_text(source: str) -> str:
    """Return the file from `model` on."""
    return source[source.index("def model(") :].strip()


def index(models: list[ModelFile]) -> str:
    """Return the page that lists the models."""
    lines = [f"- [{m.name}]({m.name}.md): {m.title}" for m in models]
    return (
        "# Models\n\nMade from the files in `models/` by `make docs`.\n\n" + "\n".join(lines) + "\n"
    )


def pages() -> dict[str, str]:
    """Return all pages: file name -> text."""
    models = [get_model(name) for name in model_names()]
    return {"README.md": index(models), **{f"{m.name}.md": page(m) for m in models}}


def format_page(reader: Reader) -> str:
    """Return the page of a reader: what is written there by hand stays, the tables are new."""
    file = FORMATS / f"{reader.name}.md"
    empty = "".join(f"<!-- {n}: begin -->\n<!-- {n}: end -->\n\n" for n in ("head", "tables"))
    text = file.read_text(encoding="utf-8") if file.exists() else empty.rstrip() + "\n"
    docstring = inspect.getmodule(reader.read).__doc__ or ""
    head = [
        f"# {reader.name}",
        f"*{reader.title}*",
        docstring.partition("\n")[2].strip(),
        f'`mb.load(..., reader="{reader.name}")`; without `reader` where the content tells.',
    ]
    text = between_markers(text, "head", "\n\n".join(part for part in head if part))
    return between_markers(text, "tables", reader_tables(reader))


def reader_tables(reader: Reader) -> str:
    """Return the columns and options of a reader."""
    lines = ["## Fields", "", "| field | required | meaning |", "|---|---|---|"]
    lines += [f"| `{c.name}` | {c.required} | {c.meaning} |" for c in reader.columns]
    lines += ["", "## Options", "", "| option | default | meaning |", "|---|---|---|"]
    for option in reader.options:
        choices = f" ({', '.join(map(repr, option.choices))})" if option.choices else ""
        meaning = option.meaning.replace("|", "\\|")
        lines.append(f"| `{option.name}` | `{option.default!r}` | {meaning}{choices} |")
    lines += ["", "Options of every reader are on [the page of all formats](README.md)."]
    return "\n".join(lines)


def format_index() -> str:
    """Return the list of formats."""
    return "\n".join(f"- [{r.name}]({r.name}.md): {r.title}" for r in READERS.values())


def code_table() -> str:
    """Return the linter's codes, one section each."""
    return "\n\n".join(
        f"### {name}: {code.title}\n\n*{code.severity}.* {code.meaning}"
        for name, code in CODES.items()
    )


def module_map() -> str:
    """Return a line for every module: its path and the first line of its docstring."""
    files = sorted([*(ROOT / "measurebayes").rglob("*.py"), *(ROOT / "models").glob("*.py")])
    return "\n".join(f"- `{f.relative_to(ROOT).as_posix()}`: {first_line(f)}" for f in files)


def first_line(file: Path) -> str:
    """Return the first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    return text.splitlines()[0] if text else "(no docstring)"


def between_markers(text: str, name: str, new: str) -> str:
    """Replace what stands between ``<!-- name: begin -->`` and ``<!-- name: end -->``."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, _, rest = text.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise ValueError(f"the markers {begin} and {end} are not both there")
    return f"{head}{begin}\n{new}\n{end}{tail}"


def documents() -> dict[Path, str]:
    """Return every document that is made from the code, or has a part that is."""
    parts = {
        ROOT / "ARCHITECTURE.md": ("module map", module_map()),
        FORMATS / "README.md": ("formats", format_index()),
        ROOT / "docs" / "lint.md": ("codes", code_table()),
    }
    return {
        **{
            file: between_markers(file.read_text(encoding="utf-8"), name, new)
            for file, (name, new) in parts.items()
        },
        **{PAGES / name: text for name, text in pages().items()},
        **{FORMATS / f"{name}.md": format_page(reader) for name, reader in READERS.items()},
    }


def main() -> None:
    """Write the documents, and remove pages of models and formats that are gone."""
    written = documents()
    for folder in (PAGES, FORMATS):
        folder.mkdir(parents=True, exist_ok=True)
        for page_file in folder.glob("*.md"):
            if page_file not in written:
                page_file.unlink()
    for file, text in written.items():
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
