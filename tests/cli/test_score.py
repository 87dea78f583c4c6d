"""`ident score`: scores of anybody's array as a table and as JSON, and one line for what cannot be scored."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ident.benchmark import metrics
from ident.benchmark.metrics.representation import of_latents
from ident.benchmark.registry import read_slot
from ident.render.errors import Impossible
from ident.render.store.dataset import Dataset
from tests.conftest import Run
from tests.render.engines import RECIPE
from tests.render.store.test_dataset import paint

RNG = np.random.default_rng(0)
FACTORS = np.stack([RNG.integers(size, size=200) for size in (3, 4)], 1).astype(np.float32)
OUTPUTS = (FACTORS @ RNG.normal(size=(2, 3)) + 0.1 * RNG.normal(size=(200, 3))).astype(np.float32)


@pytest.fixture(name="arrays")
def write_arrays(tmp_path: Path) -> Path:
    """Outputs, and the factors behind them."""
    np.save(tmp_path / "z.npy", OUTPUTS)
    np.save(tmp_path / "x.npy", FACTORS)
    return tmp_path


def test_all_metrics_of_discrete_factors(ident: Run, arrays: Path) -> None:
    done = ident("score", "z.npy", "--latents", "x.npy", "--block", "both=0,1", "--kind", "0=category", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    usual = {name for name in metrics.METRICS if not name.startswith("augmentation")}
    assert set(said["scores"]) == usual - {"knn(200)"}
    assert (said["samples"], said["outputs"], said["factors"], said["size"]) == (200, 3, ["0", "1"], 2 / 3)
    assert said["left_out"] == {"knn(200)": "knn(200): 166 rows vote; give more samples"}
    for name, score in said["scores"].items():
        assert score["low"] <= score["value"] <= score["high"], name
        if score["factors"]:
            assert score["blocks"]["both"] == pytest.approx(np.mean(list(score["factors"].values())))
    rows = np.random.default_rng(0).permutation(200)
    expected = metrics.score("r2", FACTORS[rows], OUTPUTS[rows], seed=0)
    assert said["scores"]["r2"]["value"] == expected.value
    assert said["scores"]["r2"]["chance"] == expected.chance
    assert (arrays / "z.npy").exists()


@pytest.mark.usefixtures("arrays")
def test_a_table_in_percent(ident_here: Run) -> None:
    typed = ("score", "z.npy", "--latents", "x.npy", "--metric", "mcc", "--metric", "mig", "--block", "second=1")
    done = ident_here(*typed)
    assert done.returncode == 0, done.stderr
    head, mcc, mig = done.stdout.splitlines()
    assert head.split() == ["percent", "score", "95", "%", "chance", "second", "0", "1"]
    assert mcc.split()[0] == "mcc"
    assert mig.split()[-3] == mig.split()[-1]
    assert "scoring: 2/2" in done.stderr
    assert ident_here(*typed).stdout == done.stdout
    assert ident_here(*typed, "--seed", "1").stdout != done.stdout


def test_continuous_factors_and_what_is_left_out(ident_here: Run, arrays: Path) -> None:
    factors = RNG.normal(size=(200, 3))
    factors[:, 1] = 4
    np.save(arrays / "x.npy", factors)
    np.save(arrays / "z.npy", RNG.normal(size=(200, 3)))
    done = ident_here("score", "z.npy", "--latents", "x.npy", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    read_outs = {name for name in said["left_out"] if name.startswith("knn(")}
    assert len(read_outs) == 4
    assert set(said["left_out"]) - read_outs == {"beta-vae", "factor-vae", "classes"}
    assert said["factors"] == ["0", "2"]
    assert "ident: 1: has one value in these rows; left out" in done.stderr
    assert "beta-vae is left out: interventions: factor 0 has 200 values in 200 rows" in done.stderr
    assert said["verdicts"]
    done = ident_here("score", "z.npy", "--latents", "x.npy", "--metric", "beta-vae")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("ident: interventions: factor 0 has 200 values")


def test_images_of_a_dataset(ident_here: Run, tmp_path: Path) -> None:
    paint(tmp_path / "data", RECIPE, 40)
    latents = Dataset(tmp_path / "data").latents
    np.save(tmp_path / "z.npy", latents[5:30] * 2)
    np.save(tmp_path / "rows.npy", np.arange(5, 30))
    done = ident_here("score", "z.npy", "--data", "data", "--index", "rows.npy", "--metric", "mcc", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["scores"]["mcc"]["value"] == pytest.approx(1)
    assert said["factors"] == list(Dataset(tmp_path / "data").names)
    done = ident_here("score", "z.npy", "--data", "data")
    assert done.returncode == 2
    assert "z.npy has 25 rows, data 40: give a row for each" in done.stderr


def test_a_metric_of_ones_own(ident_here: Run, arrays: Path) -> None:
    (arrays / "mine_scores.py").write_text("def half(factors, representation):\n    return 0.5\n")
    done = ident_here("score", "z.npy", "--latents", "x.npy", "--metric", "mine_scores:half", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"]["mine_scores:half"]["value"] == 0.5


class Evil:
    """Code in a pickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("ran"),)


def header(shape: str, kind: str = "<f8") -> bytes:
    """A .npy file of a header alone."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "z.npy: not a .npy file of numbers"),
        (b"PK\x03\x04", "z.npy: not a .npy file of numbers"),
        (pickle.dumps(Evil()), "z.npy: not a .npy file of numbers"),
        (header("(1000000000000, 10)"), "where numbers of at most 1073741824 bytes are read"),
        (header("(200, 3)"), "it is cut short: 0 bytes of 4800"),
        (header("(200,)", "|O"), "its header says object"),
        (np.array([Evil()] * 200), "its header says object"),
        (np.array(["a"] * 200), "z.npy: holds <U1; give numbers"),
        (np.ones(200, np.complex64), "z.npy: holds complex64; give numbers"),
        (np.ones((200, 2, 2)), "has the shape (200, 2, 2); give (rows, columns), flattened if it has more"),
        (np.ones((0, 3)), "has the shape (0, 3)"),
        (np.ones(()), "has the shape ()"),
        (np.where(np.eye(200, 2), np.nan, 1), "row 0, column 0 is nan; give finite numbers"),
        (np.full((200, 2), 1e200), "row 0, column 0 is 1e+200; give finite numbers"),
        (np.ones((200, 1001)), "1001 outputs; at most 1000 are scored"),
        (np.ones((199, 2)), "z.npy has 199 rows, x.npy 200"),
        (np.ones((1, 2)), "z.npy has 1 rows, x.npy 200"),
    ],
)
def test_what_is_no_representation(ident_here: Run, arrays: Path, content: Any, says: str) -> None:
    if isinstance(content, bytes):
        (arrays / "z.npy").write_bytes(content)
    else:
        np.save(arrays / "z.npy", content, allow_pickle=True)
    done = ident_here("score", "z.npy", "--latents", "x.npy")
    assert done.returncode == 2, done.stdout
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (arrays / "ran").exists()


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (("z.npy",), "give --data, a dataset, or --latents"),
        (("z.npy", "--data", "d", "--latents", "x.npy"), "and not both"),
        (("z.npy", "--data", "nowhere"), "nowhere: no dataset; type ident render"),
        (("nowhere.npy", "--latents", "x.npy"), "nowhere.npy: No such file or directory; give a .npy file"),
        (("z.npy", "--latents", "x.npy", "--metric", "mmc"), "did you mean mcc?"),
        (("z.npy", "--latents", "x.npy", "--block", "a"), "--block: write each once and like style=hue,x"),
        (("z.npy", "--latents", "x.npy", "--block", "a=9"), "block a: no factor '9'; choose from 0, 1"),
        (("z.npy", "--latents", "x.npy", "--kind", "7=circle"), "kind of 7: x.npy has columns 0 to 1"),
        (("z.npy", "--latents", "x.npy", "--kind", "1=oval"), "kind oval of 1: choose from interval, circle, category"),
        (("z.npy", "--latents", "x.npy", "--kind", "1=circle(3)"), "kind circle(3) of 1: give interval, category or"),
        (("z.npy", "--latents", "x.npy", "--kind", "1=circle(3, 2)"), "from 3.0 to 2.0"),
        (("z.npy", "--latents", "z.npy", "--kind", "1=category"), "kind category of 1: give whole numbers"),
        (("z.npy", "--data", "d", "--kind", "1=category"), "--kind: is for --latents"),
        (("z.npy", "--latents", "x.npy", "--index", "x.npy"), "x.npy: float32 (200, 2); give a whole number for each"),
        (("z.npy", "--latents", "x.npy", "--index", "far.npy"), "far.npy: goes from 1 to 200; x.npy has rows 0 to 199"),
        (("z.npy", "--latents", "x.npy", "--index", "twice.npy"), "twice.npy: has some rows twice"),
        (("z.npy", "--latents", "x.npy", "--samples", "7"), "7 is not in the range x>=8"),
        (("few.npy", "--latents", "few.npy"), "few.npy: 1 samples; a score needs 8 or more"),
        (("z.npy", "--latents", "constant.npy"), "every factor has one value: give rows of several"),
    ],
)
def test_what_cannot_be_scored(ident_here: Run, arrays: Path, typed: tuple[str, ...], says: str) -> None:
    np.save(arrays / "far.npy", np.arange(1, 201))
    np.save(arrays / "twice.npy", np.zeros(200, np.int64))
    np.save(arrays / "few.npy", np.ones((1, 2)))
    np.save(arrays / "constant.npy", np.ones((200, 2)))
    done = ident_here("score", *typed)
    assert done.returncode == 2, done.stdout
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_kinds_of_columns(arrays: Path) -> None:
    read = of_latents(arrays / "z.npy", arrays / "x.npy", None, {"0": read_slot("category"), "1": read_slot("circle")})
    assert read.kinds[0].high == 2
    assert read.kinds[1].low == -1
    np.save(arrays / "x.npy", FACTORS[:2])
    with pytest.raises(Impossible, match=r"z.npy has 200 rows, .*x.npy 2: give a row for each"):
        of_latents(arrays / "z.npy", arrays / "x.npy", None, {})
