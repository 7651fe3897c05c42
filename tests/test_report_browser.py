"""The page in a real browser: no errors, no sideways scrolling on a phone, something to see."""

from __future__ import annotations

import functools
import http.server
import itertools
import json
import re
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from fake_dimensions import fit_around_truth
from fake_fit import fake_data, fit_of
from fake_horizons import horizon_fit
from test_checks_predictive import rasch_fit
from test_dependence import dependent

import measurebayes as mb
from measurebayes.report.dependence import dependence_context, pairs_context
from measurebayes.report.dimensions import dimensions_context
from measurebayes.report.families import families_context
from measurebayes.report.horizons import horizons_context
from measurebayes.report.page import render

pytestmark = pytest.mark.slow  # starting a browser takes seconds

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
]
# A page of the same origin frames the report as wide as a phone and writes down what it measures.
PHONE, WIDE = 390, 1280
PAGES = ("report", "horizons")
HARNESS = """<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">
<iframe id="f" style="border:0;width:{width}px;height:20000px" src="{page}.html"></iframe>
<script>
document.getElementById("f").onload = function () {{
  const view = this.contentDocument, root = view.documentElement;
  const all = [...view.querySelectorAll("body *")];
  const inScroll = e => e.closest(".scroll, pre, svg");
  const size = e => parseFloat(view.defaultView.getComputedStyle(e).fontSize);
  const scale = s => s.getBoundingClientRect().width / s.viewBox.baseVal.width;
  const out = {{
    width: root.scrollWidth,
    sticking: all.filter(e => !inScroll(e) && e.getBoundingClientRect().right > {width} + 0.5)
      .map(e => e.tagName + "." + e.className).slice(0, 5),
    clipped: [...view.querySelectorAll("table.tight, pre.equation")]
      .map(e => e.tagName === "PRE" ? e : e.parentElement)
      .filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent.slice(0, 80)),
    scripts: view.scripts.length,
    alerted: view.title,
    base: size(view.body),
    smallest: Math.min(
      ...[...view.querySelectorAll("main :is(p, td, th, li, figcaption)")].map(size)),
    figures: [...view.querySelectorAll("svg")].filter(s => s.getBoundingClientRect().width > 0)
      .map(s => Math.min(...[...s.querySelectorAll("text")].map(t => size(t) * scale(s)))),
    cut: [...view.querySelectorAll("svg")].flatMap(s => {{
      const box = s.getBoundingClientRect();
      return [...s.querySelectorAll("text")].filter(t => {{
        const b = t.getBoundingClientRect();
        return b.left < box.left - 3 || b.right > box.right + 3 || b.top < box.top - 3 ||
          b.bottom > box.bottom + 3;
      }}).map(t => t.textContent);
    }}),
  }};
  const pre = document.createElement("pre");
  pre.id = "out";
  pre.textContent = JSON.stringify(out);
  document.body.replaceChildren(pre);
}};
</script>
"""


@pytest.fixture(scope="module")
def browser():
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    pytest.skip("needs Chromium (Debian: apt-get install chromium)")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A report with a hostile name and an unconverged fit, on a local server."""
    folder = tmp_path_factory.mktemp("served")
    names = ['<script>document.title="run"</script>', "m" * 200, "שלום مرحبا", "$x$ & 🤖"]
    agents = names + [f"Agent {k} of a Family (Preview)" for k in range(8)]
    tasks = [f"{name}/task" for name in names] + [f"family_{k}/task_{k}" for k in range(56)]
    data, truth = fake_data(agents=agents, tasks=tasks, model="two_pl")
    fits = {names[0]: fit_of(data, truth, "two_pl"), "rasch": fit_of(data, truth, "rasch")}
    fits["bad"] = fit_of(data, truth, "rasch", converged=False, draws=50)
    mb.report(fits, folder / "report.html", checks={n: quick_checks(f) for n, f in fits.items()})
    page = (folder / "report.html").read_text(encoding="utf-8")
    head, rest = page.split("<body>", 1)
    section = re.search(r'<section id="quantity".*?</section>', rest, re.DOTALL)
    (folder / "section.html").write_text(f"{head}<body>{section[0]}", encoding="utf-8")
    (folder / "horizons.html").write_text(section_of_horizons(names), encoding="utf-8")
    for width, shown in itertools.product((PHONE, WIDE), PAGES):
        frame = HARNESS.format(width=width, page=shown)
        (folder / f"{shown}{width}.html").write_text(frame, encoding="utf-8")
    handler = functools.partial(Silent, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def section_of_horizons(names):
    """A page with horizons and a trend of agents with hostile names."""
    fits = {names[0]: horizon_fit(names=names), "trend": horizon_fit("horizon_trend", names=names)}
    nothing = {"models": [], "unconverged": [], "data": [], "comparison": None, "citations": []}
    found = horizons_context(fits, doubtful=["trend"])
    rng = np.random.default_rng(4)
    data = dependent(rng)
    data = data.assign_coords(
        agent=np.array([*names, *data["agent"].values[len(names) :]]),
        task=np.array([f"{names[j % len(names)]}/{j}" for j in range(data.sizes["task"])]),
    )
    together = {names[1]: rasch_fit(data, rng)}
    several = {
        names[1]: fit_around_truth("mirt:dimensions=2", data, {"trait_sd": 1.5}),
        names[2 % len(names)]: fit_around_truth("testlet", data),
    }
    others = {
        "dimensions": dimensions_context(several, doubtful=[names[1]]),
        "families": families_context(several, doubtful=[]),
        "dependence": dependence_context(together, doubtful=[names[1]]),
        "pairs": pairs_context({**together, names[0]: fits[names[0]]}),
    }
    title = "Measurement report of horizons"
    context = {**nothing, **others, "title": title, "horizons": found}
    return render({**context, "quantity": {"problem": "none"}})


def quick_checks(fit):
    return mb.check(fit, replicates=20)


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def run(browser, profile, *arguments):
    done = subprocess.run(
        [browser, *FLAGS, f"--user-data-dir={profile}", *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return done.stdout, done.stderr


@pytest.fixture(scope="module", params=itertools.product((PHONE, WIDE), PAGES))
def measured(request, browser, served, tmp_path_factory):
    width, shown = request.param
    profile = tmp_path_factory.mktemp("profile")
    address = f"{served}/{shown}{width}.html"
    dom, log = run(browser, profile, "--virtual-time-budget=15000", "--dump-dom", address)
    found = re.search(r'<pre id="out">(.*?)</pre>', dom, re.DOTALL)
    assert found, dom[:500]
    text = found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return width, json.loads(text), log


def test_nothing_sticks_out(measured):
    width, page, _ = measured
    assert page["sticking"] == []
    assert page["width"] <= width


def test_equations_and_narrow_tables_need_no_scrolling(measured):
    _, page, _ = measured
    assert page["clipped"] == []


def test_no_script_runs_and_the_console_is_silent(measured):
    _, page, log = measured
    assert page["scripts"] == 0
    assert page["alerted"].startswith("Measurement report")
    assert "CONSOLE" not in log


def test_text_is_legible(measured):
    _, page, _ = measured
    assert page["base"] >= 16
    assert page["smallest"] >= 16
    assert min(page["figures"]) >= 9.5


def test_no_words_of_a_figure_are_cut(measured):
    _, page, _ = measured
    assert page["cut"] == []


def test_screenshot_shows_a_page(browser, served, tmp_path):
    from matplotlib.image import imread

    picture = tmp_path / "page.png"
    address = f"{served}/report.html"
    run(
        browser,
        tmp_path / "profile",
        f"--window-size={WIDE},3000",
        f"--screenshot={picture}",
        address,
    )
    pixels = np.round(imread(picture)[..., :3] * 255).astype(int)
    assert pixels.shape == (3000, WIDE, 3)
    assert pixels.std() > 15
    dark = (pixels.max(-1) < 90).mean()
    assert 0.005 < dark < 0.3
    # The warning stands out: its ground is neither white nor grey.
    tinted = np.ptp(pixels[:600], axis=-1) > 8
    assert tinted.mean() > 0.1


def test_figures_of_a_violation_are_drawn(browser, served, tmp_path):
    """The page at the section: the lines of both figures, on a phone."""
    from matplotlib.image import imread

    picture = tmp_path / "section.png"
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    size = f"--window-size={PHONE},2600"
    command = [browser, *FLAGS, profile, size, f"--screenshot={picture}", f"{served}/section.html"]
    subprocess.run(command, capture_output=True, timeout=50, check=True)
    pixels = np.round(imread(picture)[..., :3] * 255).astype(int)
    for colour in ((0, 0x72, 0xB2), (0xD5, 0x5E, 0)):
        near = (np.abs(pixels - colour).max(-1) < 12).sum()
        assert near > 300, colour


def test_print_has_open_tables(browser, served, tmp_path):
    if not shutil.which("pdftotext"):
        pytest.skip("needs pdftotext (Debian: apt-get install poppler-utils)")
    target = tmp_path / "page.pdf"
    run(browser, tmp_path / "profile", f"--print-to-pdf={target}", f"{served}/report.html")
    words = subprocess.run(
        ["pdftotext", str(target), "-"], capture_output=True, text=True, check=True
    ).stdout
    assert "family_55/task_55" in words.replace("\n", "")
    assert Path(target).stat().st_size > 50_000
