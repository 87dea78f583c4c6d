"""From ten numbers to a score in Python, without the command line.

A cell begins at each `# %%`, as Jupyter (by jupytext), VS Code, PyCharm and Spyder read it.
"""

# %% Render images to train on and to test on, by Ray: on this machine, or on the cluster at `address`
from ident.render.stage import stage
from ident.render.store.recipe import Recipe, Uniform
from ident.render.stage.plan import Plan
from ident.render.blender.settings import PRESETS, Settings
from ident.render.store.storage import Storage

for split, n in (("train", 128), ("test", 128)):
    recipe = Recipe(Uniform(seed=0, split=split), Settings(size=64, quality=PRESETS["draft"]))
    plan = Plan(Storage(f"data/library-{split}"), recipe, n)
    stage.render(plan, address=None, tell=lambda far: print(f"\r{far.done} of {far.total}", end=""))

# %% Load them: neither Blender nor Ray is needed from here on
from ident.render.store.dataset import Dataset

data, test = Dataset("data/library-train"), Dataset("data/library-test")
image, raw_latents = data[3]  # (64, 64, 3) uint8 and (10,) float32
print(f"\n{len(data)} images of {image.shape}, the latents of one:")
print(dict(zip(data.names, raw_latents.round(2).tolist(), strict=True)))

# %% Draw positive pairs: of each anchor the image nearest to a draw of the conditional
from ident.benchmark.pairs.samplers import open_sampler

sampler = open_sampler(data, "normal(0.2)", space="box", seed=0, say=print)
pairs = sampler.draw(0, 16)  # batch 0 of 16 pairs, whoever draws it
print("anchors", pairs.anchor, "positives", pairs.positive, "distances", pairs.distance.round(2))

# %% Train an encoder to tell positives from the other anchors
import torch
from ident.benchmark.models import encoders
from ident.benchmark.losses import contrastive as losses, similarities

to_box = encoders.encoder(len(data.names), "box", network="resnet18")
encoder = torch.nn.Sequential(encoders.Pixels(*data.manifest.moments()), to_box)
optimizer = torch.optim.Adam(encoder.parameters(), 1e-3)
for number in range(20):
    pairs = sampler.draw(number, 16)
    images = [torch.from_numpy(data.images(some)).permute(0, 3, 1, 2) for some in (pairs.anchor, pairs.positive)]
    anchor, positive = encoder(torch.cat(images)).chunk(2)
    loss = losses.info_nce(anchor, positive, similarity=similarities.normal())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {number}: loss {loss.item():.3f}")

# %% Score it: R2 up to affine maps, MCC up to permutations, with intervals and what chance gives
from ident.benchmark import metrics

with torch.no_grad():
    recovered = encoder.eval()(torch.from_numpy(test.images(range(len(test)))).permute(0, 3, 1, 2))
for metric in ("r2", "mcc"):
    score = metrics.score(metric, test.latents, recovered.numpy(), seed=0)
    print(f"{metric}: {score.value:.3f} in {score.low:.3f} to {score.high:.3f}, by chance {score.chance:.3f}")
