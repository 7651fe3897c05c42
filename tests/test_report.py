"""The page: what it holds, that names can't act on it, and that it loads nothing."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fake_fit import fake_data, fake_fit, fit_of

import measurebayes as mb
from measurebayes.compare import ComparisonWarning
from measurebayes.errors import InputError, MeasureBayesError
from measurebayes.report.compared import comparison_context, sentences
from measurebayes.report.page import linked, named, write
from measurebayes.report.sections import data_contexts
from measurebayes.report.summary import model_words, named_fits
from measurebayes.report.text import duration, folded, number, share, short, shortened, shown

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "$\\frac{1}{0}$ & $x",
    "n" * 200,
    "🤖 agent 👩‍🔬",
    "שלום مرحبا",
    "\u202egnp.exe",
    "{{ 7 * 7 }} {% raw %}",
    "]]> &amp; <!--",
    "\\alpha_{",
    "' onmouseover='alert(1)",
]
VOID = {"meta", "link", "img", "br", "hr", "input", "source", "base", "area", "col", "embed", "wbr"}


class Page(HTMLParser):
    """Every element with its attributes, the text, and whether tags are balanced."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.words, self.open, self.problems = [], [], [], []
        self.glue = False  # after <wbr> a word goes on
        self.feed(text)
        self.close()
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.glue = tag == "wbr"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words += [data] if self.glue else [" ", data]
        self.glue = False

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def two_fits():
    data, truth = fake_data(agents=6, tasks=9)
    return {model: fit_of(data, truth, model) for model in ("rasch", "two_pl")}


@pytest.fixture(scope="module")
def compared(two_fits):
    with warnings.catch_warnings():  # of Pareto k: draws made up around a truth are no posterior
        warnings.simplefilter("ignore", ComparisonWarning)
        return mb.compare(two_fits)


@pytest.fixture(scope="module")
def written(two_fits, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert mb.report(two_fits, path) == path
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(written):
    return Page(written)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    fit = fake_fit("two_pl", agents=HOSTILE, tasks=[f"{n} t" for n in HOSTILE], draws=150)
    mb.report({HOSTILE[1]: fit}, path)
    return path.read_text(encoding="utf-8")


def loads(page):
    """Return everything that a browser would fetch."""
    found = []
    for tag, attributes in page.elements:
        for key, value in attributes.items():
            if key in {"src", "srcset", "data", "poster", "action", "background"}:
                found.append(value)
            if key in {"href", "xlink:href"} and tag != "a":
                found.append(value)
    return [value for value in found if not value.startswith("#")]


def test_page_is_well_formed(page):
    assert page.problems == []
    assert page.open == []
    assert page.all("html")[0]["lang"] == "en"
    assert "width=device-width" in str(page.all("meta"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("which", ["written", "hostile"])
def test_page_loads_nothing_and_runs_nothing(which, request):
    text = request.getfixturevalue(which)
    page = Page(text)
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "iframe", "object", "embed", "base", "form", "img"}
    assert loads(page) == []
    assert not [key for _, attributes in page.elements for key in attributes if key[:2] == "on"]
    urls = re.findall(r"url\(([^)]*)\)", text)
    assert all(url.startswith("#") for url in urls)
    assert "@import" not in text
    targets = [a["href"] for a in page.all("a")]
    assert all(re.match(r"(#|https?://)", target) for target in targets)


def test_inner_links_and_references_have_targets(page):
    ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    inner = [a["href"][1:] for a in page.all("a") if a["href"].startswith("#")]
    used = [u["href"][1:] for u in page.all("use")]
    labelled = [a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a]
    clips = [
        re.search(r"#([^)]*)\)", a["clip-path"])[1] for _, a in page.elements if "clip-path" in a
    ]
    assert len(inner) > 4
    assert used
    assert clips
    assert {*inner, *used, *labelled, *clips} <= ids


def test_all_sections_are_there_in_order_of_headings(page):
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    for heading in (
        "Data",
        "Comparison of the models",
        "Model rasch",
        "Model two_pl",
        "Equation, assumptions and priors",
        "Identified by",
        "Abilities",
        "Difficulties",
        "Predictive checks",
        "Diagnostics",
        "Provenance and versions",
        "Citations",
    ):
        assert heading in page.text


def test_figures_have_words_and_tables_have_scopes(page):
    figures = page.all("svg")
    assert len(figures) == 2 * 8
    assert all(f["role"] == "img" and len(f["aria-label"]) > 40 for f in figures)
    assert len({f["aria-label"] for f in figures}) == len(figures)
    assert all(f["viewbox"] and "width" not in f for f in figures)
    assert page.all("th")
    assert all(th.get("scope") in {"row", "col"} for th in page.all("th"))


def test_numbers_of_the_data_are_those_of_the_data(page, two_fits):
    data = two_fits["rasch"]["data"].to_dataset()
    assert f"agents {data.sizes['agent']} tasks {data.sizes['task']}" in page.text
    assert f"attempts {number(data['attempts'].sum(), 0)}" in page.text
    assert "completed 90" in page.text
    assert "error 3" in page.text


def test_abilities_are_listed_by_posterior_mean(page, two_fits):
    draws = two_fits["two_pl"]["posterior"]["ability"]
    means = draws.mean(("chain", "draw")).to_series().sort_values(ascending=False)
    text = page.text.split("Model two_pl", 2)[-1]
    at = [text.index(f"{rank} {name} ") for rank, name in enumerate(means.index, 1)]
    assert at == sorted(at)
    low, high = np.quantile(draws.sel(agent=means.index[0]).values, [0.025, 0.975])
    row = f"1 {means.index[0]} {number(means.iloc[0])} {number(low)} to {number(high)}"
    assert row in text


def test_saturated_tasks_are_marked(page):
    assert "always solved" in page.text
    assert "never solved" in page.text


def test_priors_have_values_and_units(page):
    assert "difficulty mean 5 logits, standard deviation of a normal around 0" in page.text
    assert "log discrimination sd 1 natural logarithms, scale of a half-normal" in page.text


def test_comparison_has_a_plain_sentence(page, compared):
    table = compared
    best, other = table.index
    assert f"{best} " in page.text
    assert number(table.loc[best, "elpd"], 1) in page.text
    assert number(abs(table.loc[other, "elpd_diff"]), 1) in page.text
    assert "log predictive densit" in page.text


def test_a_converged_page_has_no_warning(page):
    assert "trust the draws" not in page.text


def test_an_unconverged_fit_is_warned_of_at_the_top(tmp_path):
    path = mb.report(fake_fit(converged=False, agents=4, tasks=5), tmp_path / "report.html")
    page = Page(path.read_text(encoding="utf-8"))
    assert page.text.index("Do not trust the draws of rasch") < page.text.index("Abilities")
    assert "R-hat" in page.text.split("Contents")[0]
    alerts = [a for _, a in page.elements if a.get("role") == "alert"]
    assert len(alerts) == 1


def test_warning_needs_no_convergence_rows_in_the_given_checks(tmp_path):
    fit = fake_fit(converged=False, agents=4, tasks=5)
    checks = pd.DataFrame({"name": ["mine"], "passed": [True], "value": [1.0], "text": ["fine"]})
    text = mb.report(fit, tmp_path / "r.html", checks=checks).read_text(encoding="utf-8")
    assert "Do not trust the draws of" in text
    assert "fine" in text


def test_hostile_names_are_shown(hostile):
    page = Page(hostile)
    assert page.problems == []
    for name in HOSTILE:
        expected = " ".join(shown(name).split())
        assert page.text.count(expected) >= 2, name
    assert "49" not in re.findall(r"Model ([^ ]*)", page.text)
    assert "<script" not in hostile
    # Twice: as the name of an agent and as part of the name of a task, in a table and a figure.
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in hostile


def test_svg_text_is_not_read_as_mathematics(hostile):
    page = Page(hostile)
    assert "$\\frac{1}{0}$ & $x" in page.text
    assert "\\alpha_{" in page.text


@pytest.mark.parametrize(
    ("model", "design"),
    [
        ("two_pl", {"agents": 2, "tasks": 2, "saturated": False, "minutes": False}),
        ("rasch", {"agents": 300, "tasks": 5, "attempts": 1, "holes": 0.0, "minutes": False}),
        ("rasch", {"agents": 3, "tasks": 60, "attempts": 1}),
    ],
)
def test_any_size_makes_a_page(model, design, tmp_path):
    fit = fake_fit(model, draws=30, log_likelihood=False, **design)
    checks = pd.DataFrame({"name": ["x"], "passed": [True], "value": [np.nan], "text": [""]})
    path = mb.report(fit, tmp_path / "report.html", checks=checks)
    page = Page(path.read_text(encoding="utf-8"))
    assert page.problems == []
    assert "nan" not in page.text.lower().split()
    assert path.stat().st_size < 2_000_000


def test_a_list_is_named_by_models_with_suffixes(two_fits):
    rasch, two_pl = two_fits.values()
    named = named_fits([rasch, two_pl, rasch, rasch])
    assert list(named) == ["rasch", "two_pl", "rasch-2", "rasch-3"]
    assert list(named_fits(rasch)) == ["rasch"]


def test_fits_of_other_data_are_shown_but_not_compared(two_fits):
    fits = {"one": two_fits["rasch"], "two": fake_fit(agents=4, tasks=4, draws=20)}
    found = comparison_context(fits, None)
    assert found["rows"] == []
    assert "other data" in found["problem"]
    assert [item["fits"] for item in data_contexts(fits)] == [["one"], ["two"]]
    assert len(data_contexts(two_fits)) == 1


def test_given_comparison_is_used(two_fits, compared):
    table = compared.assign(elpd=[-123456.7, -123460.0], elpd_diff=[0.0, -3.3])
    found = comparison_context(two_fits, table)
    assert [row["elpd"] for row in found["rows"]] == [-123456.7, -123460.0]
    with pytest.raises(InputError, match="no column dse"):
        comparison_context(two_fits, table.drop(columns="dse"))


@pytest.mark.parametrize(
    ("difference", "dse", "words"),
    [
        (-3.3, 0.1, "equally well"),
        (-30.0, 20.0, "don't tell them apart"),
        (-30.0, 5.0, "by 30.0 (standard error 5.0), 6.0 standard errors"),
    ],
)
def test_the_sentence_fits_the_size_of_the_difference(compared, difference, dse, words):
    table = compared.assign(elpd_diff=[0.0, difference], dse=[0.0, dse])
    (sentence,) = sentences(table)
    assert words in sentence
    assert all(str(name) in sentence for name in table.index)
    assert "one agent's attempts at one task" in sentence


def test_a_comparison_of_an_unconverged_fit_is_not_trusted(two_fits, compared):
    found = comparison_context(two_fits, compared, doubtful=["rasch"])
    first = found["sentences"][0]
    assert first == "This comparison can't be trusted, since the draws of rasch can't."


@pytest.mark.parametrize("fits", [[], {}, 3, "fit.nc", [1], {"a": None}])
def test_what_is_no_fit_is_refused(fits, tmp_path):
    with pytest.raises(InputError, match=r"fit"):
        mb.report(fits, tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_checks_of_another_shape_are_refused(two_fits, tmp_path):
    with pytest.raises(InputError, match="one table of checks for 2 fits"):
        mb.report(two_fits, tmp_path / "r.html", checks=pd.DataFrame())
    with pytest.raises(InputError, match="no column name"):
        mb.report(two_fits["rasch"], tmp_path / "r.html", checks=pd.DataFrame())


def test_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write(path, "x" * 100_000 + "\ud800")
    assert path.read_text(encoding="utf-8") == "old"
    write(path, "new")
    assert path.read_text(encoding="utf-8") == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_that_does_not_exist_is_named_before_any_work(tmp_path):
    with pytest.raises(InputError, match="there is no folder"):
        mb.report([], tmp_path / "absent" / "r.html")
    with pytest.raises(InputError, match="is a folder"):
        mb.report([], tmp_path)


def test_the_models_words_are_the_fits_own(two_fits):
    """A fit may be older than the model file: the page shows what was fitted, and runs no code."""
    fit = two_fits["rasch"].copy()
    source = str(fit.attrs["model_source"]).replace("One ability decides", "Formerly one decided")
    fit.attrs["model_source"] = source + "\nraise SystemExit('code of a fit was run')\n"
    assert model_words(fit).title.startswith("Rasch model")
    assert "Formerly one decided" in model_words(fit).sections["Assumes"]
    assert "Rasch, G. (1960)" in mb.cite(fit)


def test_missing_package_is_named_with_its_installation(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MeasureBayesError, match=r"pip install 'measurebayes\[report\]'"):
        mb.report(fake_fit(agents=2, tasks=2, draws=5), tmp_path / "r.html")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["rasch", "two_pl"])
def test_fits_made_up_for_tests_have_the_layout_of_real_ones(model, tmp_path):
    data, truth = fake_data(agents=4, tasks=5)
    with warnings.catch_warnings():  # a few draws can't converge
        warnings.simplefilter("ignore")
        real = mb.fit(model, data, draws=20, tune=20, chains=2, seed=1, progress=False)
    fake = fit_of(data, truth, model, chains=2, draws=20)
    assert set(fake.children) == set(real.children)
    assert set(fake.attrs) == set(real.attrs)
    for name, group in real.children.items():
        mine, theirs = fake[name].to_dataset(), group.to_dataset()
        assert {n: v.dims for n, v in mine.items()} == {n: v.dims for n, v in theirs.items()}, name
        assert set(mine.coords) == set(theirs.coords), name
        assert set(mine.attrs) == set(theirs.attrs), name
    page = Page(mb.report(real, tmp_path / "real.html").read_text(encoding="utf-8"))
    assert page.problems == []
    assert "Do not trust the draws" in page.text


def test_cite_names_data_toolkit_backend_and_model():
    text = mb.cite(fake_fit("two_pl", agents=3, tasks=4, draws=10))
    lines = text.splitlines()
    assert [line.split(".")[0] for line in lines] == [str(n + 1) for n in range(len(lines))]
    assert "Nobody (2026)" in lines[0]
    assert "CC0" in lines[0]
    for words in ("measurebayes 0.1.0", "NumPyro", "0.22.0", "ArviZ", "Birnbaum"):
        assert words in text
    for doi in ("10.21105/joss.09889", "10.1214/20-BA1221", "10.3102/10769986024002146"):
        assert doi in text


def test_cite_names_pymc_where_pymc_sampled():
    fit = fake_fit(agents=3, tasks=4, draws=10)
    fit.attrs["backend"] = "pymc"
    assert "10.7717/peerj-cs.1516" in mb.cite(fit)
    assert "NumPyro" not in mb.cite(fit)


def test_import_is_light():
    code = (
        "import sys, measurebayes.report, measurebayes.report.plots, measurebayes.report.curves\n"
        "heavy = {'matplotlib', 'arviz', 'arviz_stats', 'jax', 'pymc', 'jinja2'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_links_are_made_of_dois_and_addresses_only():
    assert linked("see doi:10.1214/20-B.") == (
        'see <a href="https://doi.org/10.1214/20-B" rel="noreferrer">doi:10.1214/20-B</a>.'
    )
    assert linked("(https://doi.org/10.1/x)") == (
        '(<a href="https://doi.org/10.1/x" rel="noreferrer">https://doi.org/10.1/x</a>)'
    )
    assert "<a" not in linked("javascript:alert(1) 10.5/3 <a>")
    attack = str(linked('https://x.org/"onmouseover=alert(1)'))
    assert Page(attack).all("a") == [{"href": "https://x.org/", "rel": "noreferrer"}]


def test_names_break_at_marks_only_and_are_escaped():
    assert named("a_b/c") == '<bdi class="name">a_<wbr>b/<wbr>c</bdi>'
    assert named("<i>") == '<bdi class="name">&lt;i&gt;</bdi>'
    assert named("--x--") == '<bdi class="name">--<wbr>x--</bdi>'


def test_words_for_numbers():
    assert number(-1234.567, 1) == "\u22121\u202f234.6"
    assert number(-0.001) == "0.00"
    assert number(float("nan")) == "\u2013"
    assert [share(x) for x in (0, 0.001, 0.5, 0.999, 1)] == [
        "0\u202f%",
        "<\u202f1\u202f%",
        "50\u202f%",
        ">\u202f99\u202f%",
        "100\u202f%",
    ]
    assert [duration(x) for x in (0.02, 1.5, 45, 90, 1800)] == [
        "1.2\u202fs",
        "1.5\u202fmin",
        "45\u202fmin",
        "1.5\u202fh",
        "30\u202fh",
    ]


def test_names_are_shortened_but_stay_apart():
    assert short("abcdefghij", 7) == "abc…hij"
    assert short("abc", 7) == "abc"
    names = ["Claude 3.5 Sonnet (New) (Inspect)", "Claude 3.5 Sonnet (Old) (Inspect)"]
    one, two = shortened(names, 25)
    assert one != two
    assert max(len(one), len(two)) <= 25
    assert shortened(["x" * 30, "x" * 30], 9)[0] == shortened(["x" * 30], 9)[0]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("-1.9 to -1.1 logits", ["-1.9 to", "-1.1 logits"]),
        ("6.25 to 23.5 min", ["6.25 to", "23.5 min"]),
        ("10:30 to 11:45", ["10:30 to", "11:45"]),
        ("model-2024-09", ["model-", "2024-09"]),
    ],
)
def test_folded_labels_keep_numbers_whole(text, lines):
    assert [line.strip() for line in folded(text, 11).splitlines()] == lines


def test_tables_of_numbers_keep_their_labels_in_sight():
    """On a phone the first column stays while numbers scroll, each below its head."""
    folder = Path(mb.__file__).parent / "report" / "templates"
    tables = re.findall(
        r"<table([^>]*)>(.*?)</table>", (folder / "data.html").read_text(), re.DOTALL
    )
    numeric = [kind for kind, body in tables if "|number(" in body]
    assert len(numeric) == 2
    assert all("numbers" in kind for kind in numeric)


def test_acting_characters_are_shown():
    assert shown("a\nb\tc") == "a↵b⇥c"
    assert shown("\u202e\x00\ud800\x7f") == "\ufffd" * 4
    assert shown("👩‍🔬 é שלום") == "👩‍🔬 é שלום"
