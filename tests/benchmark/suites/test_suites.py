"""Suites, rows and tiers: as the papers have them, filtered, shared, refused where they are wrong."""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ident.benchmark.latents import notation, spaces
from ident.benchmark.losses import contrastive as losses
from ident.benchmark.pairs.curriculum import Curriculum
from ident.benchmark.pairs.drawn import Drawn
from ident.benchmark.registry import ENCODERS
from ident.benchmark.sources import mixed
from ident.benchmark.suites import bench, rows, runner, suite, tiers
from ident.benchmark.suites.results import RESULT
from ident.benchmark.suites.rows import KINDS
from ident.benchmark.suites.runs import Run, of_tier, result_of, runs_of
from ident.benchmark.suites.suite import load_suite, select
from ident.benchmark.suites.task import RowTask, check
from ident.benchmark.suites.tiers import load_tier
from ident.benchmark.training.schedule import Training
from ident.benchmark.training.seeds import Stream
from ident.render.errors import Failed, Impossible
from ident.render.stage import cluster

QUICK = replace(
    load_tier("laptop"),
    name="quick",
    supervised=Training(steps=4, batch_size=16, learning_rate=1e-3, looks=2),
    unsupervised=Training(steps=4, batch_size=16, learning_rate=1e-3, looks=2),
    samples=64,
)


def task_of(run: Run, device: str) -> Any:
    """The task of a run, with all that its slots have."""
    return RowTask(run, device)


def run_of(suite: str, row: str, kind: str = "unsupervised", seed: int = 0) -> Run:
    return Run(suite, load_suite(suite).row(row), kind, seed, QUICK)


def test_the_tables_are_those_of_the_papers() -> None:
    one, two = load_suite("table1"), load_suite("table2")
    assert (len(one.rows), one.metrics, len(two.rows), two.metrics) == (14, ("r2",), 10, ("mcc",))
    itself = [
        row.id for row in one.rows if "itself" in dict(row.objective.keywords)
    ]  # as the authors' code has the rows with unbounded latents
    assert itself == ["laplace-unbounded-narrow-normal", "normal-unbounded-narrow-normal"]
    assert one.row("sphere-vmf1-vmf").paper["unsupervised"] == {"r2": (99.42, 0.05)}
    eleven = {"identity": (62.49, 1.65), "supervised": (99.65, 0.04), "unsupervised": (98.13, 0.14)}
    assert one.row("laplace-unbounded-normal-normal").paper == {kind: {"r2": score} for kind, score in eleven.items()}
    assert two.row("normal-unbounded-normal").paper["unsupervised"] == {"mcc": (58.26, 3.00)}
    assert [row.id for row in one.rows if row.matches] == ["sphere-vmf1-vmf"]
    assert [row.id for row in two.rows if row.matches] == ["laplace-box-laplace", "gennorm3-box-gennorm3"]


def test_the_paper_tier_is_its_appendix() -> None:
    tier = load_tier("paper")
    for training in (tier.supervised, tier.unsupervised):
        assert training.described() | {"looks": 0} == {
            "steps": 300_000, "batch_size": 6144, "learning_rate": 1e-4, "optimizer": "adam", "warm_up": 0,
            "constant": 1.0, "precision": "float32", "looks": 0,
        }  # fmt: skip
    assert (tier.samples, tier.model.whiten) == (4096, False)


@pytest.mark.parametrize(
    "name",
    [name for name in suite.names() if not load_suite(name).images],
)
def test_every_row_of_every_suite_trains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed, "MEASURED", 500)
    rows = load_suite(name).rows
    if len(rows) > 50:  # of which those on a curve differ in a number alone
        rows = tuple({(row.figure, row.curve): row for row in reversed(rows)}.values())
    for row in rows:
        for kind in row.kinds:
            run = Run(name, row, kind, 0, QUICK, reports=load_suite(name).metrics)
            result = runner.perform(run, tmp_path, "cpu", lambda *_: None)
            assert result is not None
            assert set(result.scores["test"]) == {"r2", "mcc", "spearman", *run.reports}
            assert len(result.scores["test"]["r2"].per_latent) == len(result.factors) == row.dim
            each = {"aninfonce": 1, "tricl": 1, "ensemble": 2}.get(row.objective.name, 0)
            assert len(result.learned) == each * (row.dim or 0) * (kind == "unsupervised")


@pytest.mark.parametrize(
    ("suite", "wanted", "places"),
    [
        ("table1", {}, list(range(1, 15))),
        ("table2", {"space": "box"}, [1, 2, 3, 4, 5]),
        ("table1", {"latent_space": "box"}, [5, 6, 7, 8]),
        ("table1", {"latent_space": "box(10,0,1)", "conditional": "laplace"}, [6, 7]),
        ("table1", {"conditional": "vmf(kappa=10)"}, [2]),
        ("table1", {"marginal": "Laplace"}, [11, 13]),
        ("table1", {"conditional": "normal(sigma=.050)", "latent_space": "box(10, 0.0, 1)"}, [5, 8]),
        ("table2", {"model": "gennorm(3)"}, [2, 7, 10]),
    ],
)
def test_filters(suite: str, wanted: dict[str, str], places: list[int]) -> None:
    rows = load_suite(suite).rows
    assert list(select(load_suite(suite), wanted)) == [rows[place - 1] for place in places]


def test_a_filter_that_matches_nothing_lists_the_rows() -> None:
    with pytest.raises(Impossible) as error:
        select(load_suite("table2"), {"space": "sphere"}, ("normal-box-normal",))
    assert "table2 has no row with space sphere, row normal-box-normal" in str(error.value)
    listed = "normal-unbounded-gennorm3: box, uniform, normal(0.05) -> unbounded, gennorm(3)"
    assert listed in str(error.value)


def test_a_row_that_is_not_there_lists_the_ids_and_says_the_nearest() -> None:
    with pytest.raises(Impossible) as error:
        select(load_suite("table4"), {}, ("box-normal", "box-laplase"))
    assert str(error.value) == (
        "table4: row 'box-laplase': choose from box-normal, unbounded-normal, box-laplace, sphere-normal, "
        "augmentations, box-aninfonce, box-align-uniform, supervised, identity, untrained; did you mean box-laplace?"
    )
    with pytest.raises(Impossible, match=r"^table4: row '3': choose from box-normal, .*, untrained$"):
        select(load_suite("table4"), {}, ("3",))


@pytest.mark.parametrize("name", ["", "Box", "-box", "../x", "box/x", "box normal", "x" * 65, 3, "box\n"])
def test_what_is_no_id(name: object) -> None:
    with pytest.raises(Impossible, match="give small letters, digits, dots and hyphens, like box-normal") as error:
        rows.row_of(row() | {"id": name})
    assert f"id {name!r}: give" in str(error.value)


def test_two_rows_with_one_id() -> None:
    suite = load_suite("table4")
    with pytest.raises(Impossible, match=r"^2 rows have the id box-normal: give each its own$"):
        replace(suite, rows=(*suite.rows, suite.rows[0]))


def test_rows_share_what_does_not_depend_on_them() -> None:
    suite = load_suite("table1")
    names = [run.name for run in runs_of(suite, suite.rows, KINDS, 2, QUICK)]
    assert len(names) == len(set(names)) == 2 * (5 + 5 + 14)
    names = [run.name for run in runs_of(suite, suite.rows[1:3], KINDS, 1, QUICK)]
    assert names == [
        "sphere-vmf1-vmf-identity-seed0", "sphere-vmf1-vmf-supervised-seed0", "sphere-vmf10-vmf-unsupervised-seed0",
        "sphere-laplace-vmf-unsupervised-seed0",
    ]  # fmt: skip


def test_a_batch_follows_from_seed_and_number_and_a_mixing_from_the_seed() -> None:
    def first(number: int, seed: int) -> Any:
        return next(task_of(run_of("table1", "sphere-laplace-vmf", seed=seed), "cpu").batches(number)).observations

    assert torch.equal(first(7, 0), first(7, 0))
    assert not torch.equal(first(7, 0), first(8, 0))
    assert not torch.equal(first(7, 0), first(7, 1))
    one, other = (task_of(run_of("table1", row), "cpu") for row in ("sphere-vmf10-vmf", "box-normal-normal"))
    assert torch.equal(one.source.mixing.matrices, other.source.mixing.matrices)
    later = task_of(run_of("table1", "sphere-vmf10-vmf", seed=1), "cpu")
    assert not torch.equal(one.source.mixing.matrices, later.source.mixing.matrices)


def latents_of(task: Any, number: int) -> Any:
    """Of a batch of drawn pairs (anchors and positives, parts, size of a part, d)."""
    assert isinstance(task.pairs, Drawn)
    size = task.run.training.batch_size
    return task.pairs.latents(number / task.pairs.steps, size, task.pairs.source.generator(Stream.BATCHES, number))


def in_stages(row: str, suite: str = "table2", steps: int = 100, **curriculum: Any) -> Any:
    training = replace(QUICK.unsupervised, steps=steps, batch_size=500)
    tier = replace(QUICK, unsupervised=training, pairs=curriculum)
    return task_of(Run(suite, load_suite(suite).row(row), "unsupervised", 0, tier), "cpu")


def test_parts_of_a_box_shrink_and_cover_it() -> None:
    task = in_stages("normal-box-normal", region=0.25, parts=4)
    spans, lowest, highest = [], torch.ones(10), torch.zeros(10)
    for number in range(100):
        parts = latents_of(task, number)
        assert parts.shape == (2, 4, 125, 10)
        assert task.source.space.contains(parts.flatten(0, 2)).all()
        ends = torch.stack([parts.amin((0, 2)), parts.amax((0, 2))])
        spans.append(float((ends[1] - ends[0]).max()))
        if number >= 50:
            lowest, highest = torch.minimum(lowest, ends[0].amin(0)), torch.maximum(highest, ends[1].amax(0))
    assert spans[0] > 0.98
    assert 0.48 < spans[25] < 0.51
    assert 0.24 < spans[50] < 0.2501
    assert max(spans[50:]) < 0.2501
    assert lowest.max() < 0.01
    assert highest.min() > 0.99


@pytest.mark.parametrize(("suite", "row"), [("table1", "normal-sphere-normal-vmf"), ("table2", "normal-box-normal")])
def test_positives_are_wide_at_first_then_the_rows_own(suite: str, row: str) -> None:
    def moved(task: Any, number: int) -> float:
        anchor, positive = latents_of(task, number).flatten(1, 2)
        return float((positive - anchor).std())

    task, plain = in_stages(row, suite, spread=0.5), in_stages(row, suite)
    own = moved(plain, 0)
    assert moved(task, 0) == pytest.approx(own * 0.5 / plain.pairs.moved, rel=0.15)
    assert [moved(task, number) for number in range(50, 100)] == [moved(plain, number) for number in range(50, 100)]
    wide = in_stages("sphere-vmf10-vmf", "table1", spread=0.5)
    assert torch.equal(latents_of(wide, 0), latents_of(in_stages("sphere-vmf10-vmf", "table1"), 0))


def test_regions_are_for_uniform_boxes_alone() -> None:
    whole = Curriculum(spread=0.5, region=0.25, parts=4)
    tier = replace(QUICK, pairs=asdict(whole))

    def plan(suite: str, row: str) -> Any:
        pairs: Any = task_of(Run(suite, load_suite(suite).row(row), "unsupervised", 0, tier), "cpu").pairs
        return pairs.curriculum

    assert plan("table2", "normal-box-normal") == whole
    undivided = replace(whole, region=1.0, parts=1)
    assert plan("table1", "sphere-laplace-vmf") == plan("marginals", "box-normal0.5") == undivided
    assert plan("hard-negatives", "alone") == Curriculum()


def test_losses_of_ensembles() -> None:
    kinds = {row.objective.name: task_of(Run("aninfonce", row, "unsupervised", 0, QUICK), "cpu") for row in ensembles()}
    assert [len(kinds[loss].objective.learned()) for loss in ("infonce", "aninfonce", "ensemble")] == [0, 20, 40]
    modules: dict[str, Any] = {name: task.objective.get_submodule("losses") for name, task in kinds.items()}
    assert [len(modules[name]) for name in ("infonce", "aninfonce", "ensemble")] == [1, 1, 2]
    assert all(isinstance(loss, losses.AnInfoNCE) for loss in modules["ensemble"])


def ensembles() -> list[rows.Row]:
    return [row for row in load_suite("aninfonce").rows if row.figure == "11"]


def test_a_result_is_found_again_and_another_is_refused(tmp_path: Path) -> None:
    run = run_of("table1", "sphere-laplace-vmf")
    table1 = load_suite("table1")
    assert result_of(table1, run, tmp_path) is None
    result = runner.perform(run, tmp_path, "cpu", lambda *_: None)
    assert result_of(table1, run, tmp_path) == result
    assert not (tmp_path / run.name / runner.CHECKPOINT).exists()
    weights = torch.load(tmp_path / run.name / runner.MODEL)
    task_of(run, "cpu").model.load_state_dict(weights)
    with pytest.raises(Impossible, match="belongs to another run, of samples 64, not 65; give"):
        result_of(table1, replace(run, tier=replace(QUICK, samples=65)), tmp_path)
    path = tmp_path / run.name / RESULT
    path.write_text(path.read_text().replace('"format": 3', '"format": 7'))
    says = "of format 7, this version of ident reads 3; take a newer one; give another --out"
    with pytest.raises(Impossible, match=says):
        result_of(table1, run, tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(Failed, match=r"result\.json: is not a file; delete it to run that again"):
        result_of(table1, run, tmp_path)
    path.rmdir()
    (tmp_path / run.name / "notes.txt").write_text("mine")
    runner.forget([run], tmp_path)
    assert [path.name for path in (tmp_path / run.name).iterdir()] == ["notes.txt"]
    assert result_of(table1, run, tmp_path) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-9],
        lambda _: "[" * 100_000,
        lambda _: "3",
        lambda text: text.replace('"scores"', '"score"'),
        lambda text: text.replace('"spearman"', '"pearson"'),
        lambda text: text.replace('"value": 0', '"value": "0"', 1),
        lambda text: re.sub(r'"value": [\d.]+', '"value": NaN', text, count=1),
        lambda text: text.replace('"chance"', '"change"', 1),
        lambda text: re.sub(r'"per_latent": \[', '"per_latent": [0.5, ', text, count=1),
        lambda text: text.replace('"learned": []', '"learned": 3'),
        lambda text: text.replace('"learned": []', '"learned": [1.0]'),
        lambda text: re.sub(r'"history": \[', '"history": [{}, ', text),
        lambda text: text.replace('"format": 3', '"format": true'),
        lambda text: text.replace('"data": {}', '"data": {"train": "data/3dident"}'),
    ],
)
def test_hostile_results(tmp_path: Path, damage: Callable[[str], str]) -> None:
    run, suite = run_of("table1", "sphere-laplace-vmf", "identity"), load_suite("table1")
    runner.perform(run, tmp_path, "cpu", lambda *_: None)
    path = tmp_path / run.name / RESULT
    before = path.read_text()
    path.write_text(damage(before))
    assert path.read_text() != before
    with pytest.raises((Failed, Impossible), match=r"is damaged|is of format True"):
        result_of(suite, run, tmp_path)
    warned = list[str]()
    assert of_tier(suite, QUICK, tmp_path, {}, warned.append) == []
    assert len(warned) == 1
    assert warned[0].startswith(f"{path}: is ")
    assert warned[0].endswith("; left out")


def test_an_anchor_may_be_its_own_negative() -> None:
    task = task_of(run_of("table1", "normal-unbounded-narrow-normal"), "cpu")
    batch = task.batch(0)
    anchors, positives = task.encode(batch.observations).chunk(2)
    own, others = -((anchors - positives) ** 2).sum(1), -(torch.cdist(anchors, anchors) ** 2)
    expected = (torch.logsumexp(torch.cat([own[:, None], others], 1), 1) - own).mean()
    assert torch.allclose(task.loss(batch), expected, rtol=1e-4)
    plain: Any = task_of(run_of("table1", "normal-unbounded-normal-normal"), "cpu").objective
    assert not plain.itself


TIER = {"supervised": asdict(QUICK.supervised), "unsupervised": asdict(QUICK.unsupervised), "samples": 64}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"samples": "x"}, "samples 'x': give a whole number from 8 on"),
        ({"samples": True}, "samples True"),
        ({"samples": 7}, "samples 7"),
        ({"model": {"whiten": "no"}}, "model: whiten 'no': give true or false"),
        ({"wighten": True}, "nobody knows wighten; there are"),
        ({"name": "other"}, "nobody knows name"),
        ({"supervised": 3}, "supervised 3: give a table"),
        ({"model": {"sides": 3}}, "model: nobody knows sides"),
        ({"pairs": 3}, "pairs 3: give a table"),
        ({"pairs": {"scale": 0}}, "scale 0: give a number above 0"),
        (
            {"model": {"encoder": "resnet9"}},
            f"encoder 'resnet9': choose from {', '.join(ENCODERS.entries)}, or module:name of yours",
        ),
        ({"model": {"chunk": -1}}, "chunk -1: give a whole number"),
        ({"render": {"train": 9}}, "render: lacks test, size, quality"),
        ({"model": {"side": 1e300}}, "side 1e\\+300"),
        ({"unsupervised": {"steps": 3}}, "unsupervised: lacks batch_size, learning_rate"),
        ({"unsupervised": {**TIER["unsupervised"], "steps": True}}, "unsupervised: steps True"),  # type: ignore[dict-item]
        ({"unsupervised": {**TIER["unsupervised"], "batch_size": 1}}, "batch_size 1: give a whole number from 2 on"),  # type: ignore[dict-item]
        ({"unsupervised": {**TIER["unsupervised"], "learning_rate": "1e-3"}}, "learning_rate '1e-3'"),  # type: ignore[dict-item]
    ],
)
def test_hostile_tiers(changes: dict[str, Any], says: str) -> None:
    assert tiers.tier_of("mine", dict(TIER)).samples == 64
    with pytest.raises(Impossible, match=says):
        tiers.tier_of("mine", {**TIER, **changes})


def test_files_that_are_no_tiers(tmp_path: Path) -> None:
    for name, content, says in (
        ("a.toml", b"samples = ", "is no tier"),
        ("b.toml", b"\xff\xfe", "is no tier"),
        ("c.toml", b"x = " + b"[" * 100_000, "is no tier"),
        ("laptop.toml", b"", "give it another name"),
        ("...toml", b"", "give it another name"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(Impossible, match=says):
            load_tier(str(tmp_path / name))
    with pytest.raises(Impossible, match=r"none.toml: No such file"):
        load_tier(str(tmp_path / "none.toml"))
    (tmp_path / "d.toml").mkdir()
    with pytest.raises(Impossible, match=r"d.toml: is not a file"):
        load_tier(str(tmp_path / "d.toml"))


def test_a_module_that_a_tier_names_needs_trust(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    training = "{ steps = 2, batch_size = 8, learning_rate = 1e-3 }"
    file.write_text(
        f'samples = 64\nmodel = {{ encoder = "theirs:net" }}\nsupervised = {training}\nunsupervised = {training}\n'
    )
    said = f"{file}: names the module of theirs:net, which would be imported; if you trust it, add --trust"
    with pytest.raises(Impossible, match=re.escape(said)):
        load_tier(str(file))
    assert load_tier(str(file), trust=True).model.encoder == "theirs:net"
    assert load_tier(str(file), encoder="mlp").model.encoder == "mlp"


def test_a_task_of_ray_waits_for_nobody_who_listens(tmp_path: Path) -> None:
    class Busy:
        def put_nowait(self, item: object) -> None:  # noqa: ARG002
            time.sleep(3600)

    with cluster.cluster(None, cores=1, gpus=0) as ray:
        listener = SimpleNamespace(actor=ray.remote(num_cpus=0)(Busy).remote())
        run = pickle.dumps(run_of("table1", "sphere-laplace-vmf"))
        result = runner.remotely(run, tmp_path, "cpu", listener, (), runner.versions())
    assert result is not None
    assert len(result.history) == 2


@pytest.mark.parametrize("name", ["ident", "PyTorch"])
def test_a_task_of_ray_is_refused_where_another_version_runs(tmp_path: Path, name: str) -> None:
    versions = runner.versions()
    said = f"has {name} {versions[name]}, not 0.0.1: install the same"
    with pytest.raises(Impossible, match=re.escape(said)):
        runner.remotely(b"not read", tmp_path, "cpu", None, (), versions | {name: "0.0.1"})


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: load_suite("table3"),
            "'table3': choose from aninfonce, aninfonce-code, cifar10, cifar10-projected, dsprites, ",
        ),
        (lambda: load_tier("huge"), "'huge': choose from demo, laptop, afternoon, paper"),
        (
            lambda: load_tier("afternoon"),
            "'afternoon': is for images, these are latents; choose from laptop, demo, paper",
        ),
        (
            lambda: tiers.tier_of("mine", {**TIER, "pairs": {"first": [["a"]]}}),
            "pairs, first: groups of latents are gone, as no method may know what a latent is; leave it out",
        ),
        (lambda: rows.row_of(row(modle="x")), "row mine: nobody knows modle"),
        (lambda: built(objective="infonce(gauss)"), "'gauss'"),
        (
            lambda: built(objective="infonce"),
            r"objective infonce: missing a required argument: 'model'; it takes model, temperature, itself, against",
        ),
        (lambda: built(pairs="drawn(laplace(-1))"), "scale is -1"),
        (lambda: built(pairs="drawn(vmf(1), hard=vmf(3))"), r"hard 'vmf\(3\)' and hard_count 0: give both"),
        (lambda: rows.row_of(row() | {"kinds": ["guessed"]}), "guessed"),
        (lambda: Curriculum(lasts=0), "lasts 0: give a share"),
        (lambda: rows.row_of(row(space="torus")), "space 'torus': choose from sphere, learned-sphere, box, "),
        (
            lambda: rows.row_of(row(objective="infonse")),
            "objective 'infonse': .*did you mean infonce",
        ),
        (
            lambda: rows.row_of(row(pairs="tempo(5)")),
            "pairs 'tempo': choose from around, augmented, augmented-or-not, ",
        ),
        (lambda: rows.row_of(row(source="sprites")), "source 'sprites': choose from dataset, mixed, latents"),
        (lambda: Curriculum(region=0.0), "region 0.0: give a share"),
        (lambda: Curriculum(parts=0), "parts 0: give a whole number from 1 on"),
        (lambda: in_stages("normal-box-normal", parts=251), "parts 251 of a batch_size of 500: each needs two"),
        (lambda: Curriculum(spread=2.0), "spread 2.0: give a number from 0 to 1"),
        (lambda: runner.device_of("cuda:9"), "'cuda:9': there are cpu"),
        (lambda: runner.device_of("cuda"), "'cuda': there are cpu"),
    ],
)
def test_the_impossible_is_refused(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(Impossible, match=says):
        call()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pairs": "augmented"}, "augmented: augments stored images; give a row whose source is dataset"),
        ({"pairs": "augmented-or-not", "objective": "told"}, "augmented-or-not: augments stored images"),
        ({"pairs": "around(normal)"}, "around: finds positives among stored images"),
        ({"source": "dsprites"}, "drawn: draws latents; give a row whose source does so"),
        ({"source": "dsprites", "pairs": "among(vmf(1))"}, "among: draws latents"),
        ({"source": "mixed(sphere, normal(1))", "pairs": "among(vmf(1))"}, "among: .* of a uniform marginal alone"),
        ({"pairs": "labelled"}, "a contrastive objective compares pairs"),
        ({"objective": "supervised"}, "objective supervised: is told factors"),
        ({"pairs": "labelled", "objective": "told"}, "objective told: is told what is so or not"),
        (
            {"pairs": "drawn(vmf(1), hard=vmf(3), hard_count=2)", "objective": "decoupled(vmf)"},
            "hard negatives: are for infonce",
        ),
        (
            {"pairs": "drawn(vmf(1), hard=vmf(3), hard_count=2, hard_from=0.5)", "objective": "au(0.5)"},
            "hard negatives: are for infonce",
        ),
        ({"source": "dsprites", "pairs": "uniform-change", "objective": "ensemble"}, "a Lambda for each conditional"),
        ({"pairs": "drawn(3)"}, "distribution 3: write it like"),
        ({"objective": "infonce(3)"}, "3: write it like"),
        ({"pairs": "drawn(vmf(1), steps=0)"}, "steps 0; give a whole number from 1 on"),
    ],
)
def test_slots_that_do_not_fit_are_refused_before_anything_is_trained(changes: dict[str, str], says: str) -> None:
    with pytest.raises(Impossible, match=says):
        check([Run("table1", rows.row_of(row(**changes)), "unsupervised", 0, QUICK)])


def test_processes_that_share_batches_have_images(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "mine")
    monkeypatch.setenv("WORLD_SIZE", "3")
    refused = {"table1": "share batches of images, table1 has latents", "dsprites": "do not divide batch_size 16"}
    for name, says in refused.items():
        suite = load_suite(name)
        run = Run(name, suite.rows[0], "unsupervised", 0, QUICK)
        with pytest.raises(Impossible, match=f"3 processes {says}"):
            bench.prepare(suite, QUICK, [run], bench.Where(), tmp_path, {}, print)


def test_a_training_numbers_the_batches_of_any_pairs() -> None:
    """By which a VAE draws its noise: else it were the same in each step."""
    task = built(source="dsprites", pairs="labelled", objective="beta-vae", space="unbounded")
    batches = task.batches(3)
    assert [next(batches).number for _ in range(3)] == [3, 4, 5]


def test_an_untrained_encoder_is_one_and_the_identity_is_none() -> None:
    untrained, identity = (
        task_of(Run("table1", rows.row_of(row()), kind, 0, QUICK), "cpu") for kind in ("untrained", "identity")
    )
    assert len(list(untrained.encoder.parameters())) > 2
    assert not list(identity.encoder.parameters())


def test_a_row_has_the_dimensions_that_its_source_has() -> None:
    for space, dim in (("box", 10), ("box(1e1)", 10), ("Box( 7 )", 7), ("box(dim=5)", 5), ("box(3) * sphere(8)", 11)):
        assert rows.row_of(row(source=f"mixed({space}, uniform)")).dim == dim
        assert mixed.Latents(space, seed=0).dim == dim
    assert [rows.row_of(row(source=text)).dim for text in ("mixed(space=sphere(5))", "decoded")] == [5, 10]
    assert rows.row_of(row(source="mixed(space=box, marginal=normal(1))")).marginal == "normal(1)"
    assert set(notation.GEOMETRIES) == set(spaces.SPACES)
    for space in ("box(inf)", "box(0)", "box(2.5)", "box(2.5) * box(2.5)"):
        with pytest.raises(Impossible, match="dimensions: give a whole number from 1 on"):
            _ = rows.row_of(row(source=f"mixed({space}, uniform)")).dim
    assert rows.row_of(row(source="dataset", pairs="around(conditional=normal)")).conditionals == ("normal",)


def row(**changes: str) -> dict[str, str]:
    return {"id": "mine", "source": "mixed(sphere)", "pairs": "drawn(vmf(1))", "objective": "infonce(vmf)",
            "space": "sphere", **changes}  # fmt: skip


def built(**changes: str) -> Any:
    return task_of(Run("table1", rows.row_of(row(**changes)), "unsupervised", 0, QUICK), "cpu")
