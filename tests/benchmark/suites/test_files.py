"""Suites in files of users: as good as ours, with bounds, and trusted by nobody but who typed them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ident.benchmark.suites import suite as suites
from ident.benchmark.suites.rows import USUAL
from ident.benchmark.suites.runs import runs_of
from ident.benchmark.suites.suite import check_trusted, load_suite
from ident.benchmark.suites.task import check
from ident.benchmark.suites.tiers import load_tier
from ident.render.errors import Impossible

ROW = """
[[rows]]
id = "mine"
source = "mixed(sphere, uniform)"
pairs = "drawn(vmf(10))"
space = "sphere"
objective = "infonce(vmf)"
"""
SUITE = f'title = "Mine"\nmetrics = ["r2", "mcc"]\n{ROW}'


def load(folder: Path, text: str | bytes, name: str = "my-suite.toml") -> suites.Suite:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_suite(str(folder / name))


def test_suites_are_those_that_lie_in_the_folder() -> None:
    tables = Path(suites.__file__).parent / "tables"
    assert suites.names() == tuple(sorted(path.stem for path in tables.glob("*.toml")))
    assert {"table1", "table4"} < set(suites.names())


@pytest.mark.parametrize("name", suites.names())
def test_ours_are_whole(name: str) -> None:
    suite = load_suite(name)
    assert suite.modules == ()
    for row in suite.rows:
        assert suite.row(row.id) is row
        for kind in row.kinds:
            assert suite.sharing(row, kind)[0] in suite.rows


def test_a_users_is_as_good(tmp_path: Path) -> None:
    suite = load(tmp_path, SUITE)
    assert (suite.name, suite.folder, suite.title, suite.metrics) == ("my-suite", "my-suite", "Mine", ("r2", "mcc"))
    (row,) = suite.rows
    assert (row.id, row.dim, row.kinds) == ("mine", 10, USUAL)
    assert row.words() == {"data": "sphere, uniform, vmf(10)", "model": "sphere, vmf"}
    assert row.words("supervised") == {"data": "sphere, uniform", "model": "sphere"}
    assert row.words("identity") == {"data": "sphere, uniform", "model": ""}
    assert row.described()["pairs"] == "drawn(vmf(10))"


def test_a_users_may_show_our_runs(tmp_path: Path) -> None:
    papers = "[papers]\nidentity = { identity = { mcc = [1.0, 0.5] } }\n"
    text = f'title = "Mine"\nruns = "table4"\nmetrics = ["mcc"]\n{papers}'
    suite = load(tmp_path, text)
    assert (suite.name, suite.folder, len(suite.rows)) == ("my-suite", "table4", len(load_suite("table4").rows))
    assert [row.id for row in suite.rows if row.paper] == ["identity"]
    for wrong, says in (
        (text.replace("table4", "table9"), "runs 'table9': choose from aninfonce, .*; did you mean table5"),
        (text.replace("mcc", "spearman"), "shows the runs of table4: leave out rows, and metrics that it has not"),
        (text.replace("identity =", "idntity =", 1), "row 'idntity': choose from .*; did you mean identity"),
        (text + ROW, "shows the runs of table4: leave out rows"),
    ):
        with pytest.raises(Impossible, match=says):
            load(tmp_path, wrong)


def test_a_row_may_stand_for_many(tmp_path: Path) -> None:
    over = (
        'over = { d = [2, 3], batch = [8, 16] }\nx = "{batch}"\ncurve = "d = {d}"\n'
        'tiers.laptop = { batch_size = "{batch}" }\n'
    )
    text = SUITE.replace('"mine"', '"d{d}-batch{batch}"').replace("sphere, uniform", "sphere({d}), uniform") + over
    suite = load(tmp_path, text.replace("[[rows]]", "[every_row]\ntiers.laptop = { steps = 7 }\n[[rows]]"))
    assert [row.id for row in suite.rows] == ["d2-batch8", "d2-batch16", "d3-batch8", "d3-batch16"]
    last = suite.rows[-1]
    assert (last.dim, last.x, last.curve) == (3, 16, "d = 3")
    assert last.training_in("laptop") == {"steps": 7, "batch_size": 16}


def test_modules_need_trust(tmp_path: Path) -> None:
    suite = load(tmp_path, SUITE.replace('"mcc"', '"evil:metric"').replace("infonce(vmf)", "worse:loss(3)"))
    assert suite.modules == ("evil:metric", "worse:loss")
    check_trusted(suite, trust=True)
    check_trusted(load_suite("table1"), trust=False)
    with pytest.raises(Impossible) as error:
        check_trusted(suite, trust=False)
    assert str(error.value) == (
        "my-suite: names evil:metric, worse:loss, whose modules would be imported; if you trust it, add --trust"
    )


NESTED = "x = " + "[" * 20 + "]" * 20


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"title = ", "is no suite"),
        (b"\xff\xfe", "is no suite"),
        (b"\x80\x04\x95", "is no suite"),
        ("x = " + "[" * 100_000, "is no suite"),
        (NESTED, r"is no suite \(it is deeper than 8 levels\)"),
        ("#" * (2**20 + 1), "has more than 1048576 bytes"),
        ("", "rows: give"),
        ("rows = 3", "rows: give"),
        ("rows = [3]", "rows: give"),
        ("every_row = 3\n" + SUITE, "rows: give"),
        ("papers = [1]\n" + SUITE, "rows: give"),
        ("rows = []\ntitle = 'x'\nmetrics = ['r2']", "0 rows: give 1 to 1000"),
        (SUITE + ROW, "2 rows have the id mine: give each its own"),
        (SUITE + "".join(ROW.replace("mine", f"m{n}") for n in range(1000)), "1001 rows: give 1 to 1000"),
        ('code = "rm -rf"\n' + SUITE, "nobody knows code; there are rows, every_row, papers, title, metrics"),
        (SUITE.replace("title", "heading"), "nobody knows heading"),
        (ROW + "", "lacks metrics and title"),
        (SUITE.replace('"Mine"', "3"), "title 3: give a line of text"),
        (SUITE.replace('"Mine"', r'"\u001b]0;owned\u0007"'), "title .*: give a line of text"),
        (SUITE.replace('["r2", "mcc"]', '"r2"'), "metrics 'r2': give a list"),
        (SUITE.replace('["r2", "mcc"]', "[]"), "give a list of 1 to 32"),
        (SUITE.replace('["r2", "mcc"]', "[[3]]"), r"metric \(3,\): choose from r2, mcc, spearman"),
        (SUITE.replace('"mcc"', '"mmc"'), "metric 'mmc': choose from r2, mcc, spearman, .*; did you mean mcc"),
        ('split = "../x"\n' + SUITE, "split '../x': choose from test, train"),
        (SUITE.replace('"mine"', '"../../x"'), "row ../../x: id '../../x': give small letters"),
        (SUITE.replace('"mine"', '"a/b"'), "id 'a/b'"),
        (SUITE.replace('"mine"', '["mine"]'), "id .*: give small letters"),
        (SUITE.replace('id = "mine"', ""), "row None: missing 1 required positional argument: 'id'"),
        (SUITE + "weights = 3", "row mine: nobody knows weights; there are id, source, pairs"),
        (SUITE + "space_ = 3", "row mine: nobody knows space_"),
        (SUITE.replace('"drawn(vmf(10))"', "10"), r"row mine: pairs 10: give a text, like drawn\(laplace\(0.05\)\)"),
        (SUITE.replace("sphere, uniform", "sphere(0)"), "row mine: a space of 0 dimensions: give a whole number"),
        (SUITE.replace("sphere, uniform", "box(1000000000)"), "has 1000000000 dimensions; give at most 256"),
        (SUITE.replace("mixed(", "mixed(" * 50), "row mine: .*: its brackets do not close"),
        (SUITE.replace("vmf(10)", "vmf(10" + "0" * 5000 + ")"), "row mine: .*: write it like infonce"),
        ('ceilings = { a = { r2 = "x" } }\n' + SUITE, "ceilings .*: give a factor's most by each metric, in percent"),
        ("ceilings = { a = { auc = 50 } }\n" + SUITE, "metric 'auc'"),
        ("ceilings = 3\n" + SUITE, "ceilings 3"),
        (SUITE + "kinds = 3", "kinds 3: choose from identity, untrained, supervised, unsupervised"),
        (SUITE + 'kinds = ["guessed"]', "guessed"),
        (SUITE + "kinds = [[]]", "kinds .*: choose"),
        (SUITE + 'figure = "../x"', r"figure '../x' at 0.0: give one like '4 A'"),
        (SUITE + 'figure = "2"\nx = nan', "figure '2' at nan"),
        (SUITE + 'x = "3"', "x '3': give float or int"),
        (SUITE + "groups = 3", "groups, paper, tiers: give tables"),
        (SUITE + "tiers = { laptop = 3 }", "groups, paper, tiers: give tables"),
        (SUITE + "groups = { a = [10] }", r"groups, a \(10,\): give latents from 0 to 9"),
        (SUITE + "groups = { a = 3 }", "groups, a 3: give latents"),
        (SUITE + 'paper = { identity = { r2 = ["x", 1] } }', "paper, identity .*: give a kind's mean and sd"),
        (SUITE + "paper = { guessed = { r2 = [1, 1] } }", "paper, guessed .*: give a kind's mean and sd"),
        (SUITE + "paper = { identity = { r2 = [inf, 1] } }", "paper, identity"),
        (SUITE + 'matches = "yes"', "matches 'yes': give bool"),
        (
            SUITE.replace('"sphere"', '"torus"'),
            "row mine: space 'torus': choose from sphere, learned-sphere, box, unbounded",
        ),
        (SUITE.replace("infonce", "infonse"), "objective 'infonse': choose from .*; did you mean infonce"),
        (SUITE + "tiers = { laptop = { lr = 3 } }", "tiers, laptop: nobody knows lr; there are steps"),
        (SUITE + "tiers = { laptop = { pairs = 3 } }", "tiers, laptop, pairs 3: give a table"),
        (SUITE + "over = 3", "row mine, over 3: give a table of lists"),
        (SUITE + "over = { a = [] }", "over .*: give a table of lists"),
        (SUITE + "over = { a = [[1]] }", r"over \[1\]: give numbers, or short texts without braces"),
        (SUITE + 'over = { a = ["{a}"] }', "over '{a}': give numbers, or short texts without braces"),
        (SUITE + f"over = {{ a = {[*range(40)]}, b = {[*range(40)]} }}", "stands for 1600 rows; give at most 1000"),
        (SUITE + f'over = {{ a = [1] }}\ncurve = "{"{a}" * 700}"', "is longer than 2000 letters"),
        ('checks = ["r2"]\n' + SUITE, "check 'r2': choose from distances, orthogonality, leakage"),
        ("checks = 3\n" + SUITE, "checks 3: give a list"),
        ('targets = ["x"]\n' + SUITE, r"targets \('x',\): give a list of scores in percent"),
        ("axes = { a = 3 }\n" + SUITE, "axes .*: give a table of figures"),
        (SUITE + 'followed = "x"', "followed 'x': give bool"),
        ('runs = ["table4"]\n' + SUITE, r"runs \['table4'\]: choose from"),
    ],
)
def test_hostile_files(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(Impossible, match=says) as error:
        load(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path}/my-suite.toml: ")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (("uniform", "theirs:evil(1)"), "is a user's own, which is not loaded here"),
        (("uniform", "uniform, 3"), r"source mixed\(sphere, uniform, 3\): too many positional arguments"),
        (("vmf(10)", "vmf(-1)"), "vmf: kappa is -1"),
        (("vmf(10)", "vmf(10), speed=3"), "pairs drawn.*: got an unexpected keyword argument 'speed'"),
        (("infonce(vmf)", "infonce(gauss)"), "'gauss'; known are vmf"),
        (
            ("space =", "tiers = { laptop = { pairs = { part = 3 } } }\nspace ="),
            "tiers, laptop, pairs: drawn takes no part",
        ),
    ],
)
def test_what_is_refused_before_anything_is_trained(tmp_path: Path, changes: tuple[str, str], says: str) -> None:
    suite = load(tmp_path, SUITE.replace(*changes))
    with pytest.raises(Impossible, match=says):
        check(runs_of(suite, suite.rows, ("unsupervised",), 1, load_tier("laptop")))


@pytest.mark.parametrize("name", ["table1.toml", ".toml", "...toml", "a b.toml", "x" * 120 + ".toml"])
def test_names_that_are_no_folders(tmp_path: Path, name: str) -> None:
    with pytest.raises(Impossible, match=r"its results would go to a folder '.*'; give it another name"):
        load(tmp_path, SUITE, name)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(Impossible, match=r"none.toml: No such file or directory; give aninfonce, .*, or a file like"):
        load_suite(str(tmp_path / "none.toml"))
    (tmp_path / "a.toml").mkdir()
    with pytest.raises(Impossible, match=r"a.toml: is not a file"):
        load_suite(str(tmp_path / "a.toml"))
    (tmp_path / "b.toml").symlink_to("/dev/zero")
    with pytest.raises(Impossible, match=r"b.toml: is not a file"):
        load_suite(str(tmp_path / "b.toml"))
