"""The guides say what is so: their scripts run, on a cluster of this machine in the place of theirs."""

import re
import runpy
from pathlib import Path

import dask.config
import pytest

import drystone as ds

yaml = pytest.importorskip("yaml")
dask_jobqueue = pytest.importorskip("dask_jobqueue")
distributed = pytest.importorskip("distributed")

GUIDE = (Path(__file__).parent.parent / "docs" / "cluster.md").read_text()
SLURM, MEMBER, COLLECT, WRITE = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
(CONFIGURATION,) = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)

GENERATED = {
    "choosing.md": ("harm",),
    "scaling.md": ("sizes", "blocks", "billion"),
    "benchmarks.md": ("peers", "solvers", "training", "others"),
    "training.md": ("bounds", "bounds_stacks", "heavy_tails", "trend", "augment"),
}


def test_the_slurm_configuration_is_one():
    # As Dask reads a file: over the defaults.
    configuration = dask.config.merge({"jobqueue": dask.config.get("jobqueue")}, yaml.safe_load(CONFIGURATION))
    with (
        dask.config.set(configuration),
        dask_jobqueue.SLURMCluster(scheduler_options={"dashboard_address": ":0"}) as cluster,
    ):
        script = cluster.job_script()
    for line in ("#SBATCH -p normal", "#SBATCH -t 02:00:00", "#SBATCH --mem=16G", "--nworkers 8", "--nthreads 1"):
        assert line in script
    assert script.index("activate") < script.index("distributed.cli.dask_worker")


def test_the_slurm_script_runs(tmp_path, monkeypatch, capsys):
    class Here(distributed.LocalCluster):
        def __init__(self):
            super().__init__(n_workers=0, threads_per_worker=1, dashboard_address=":0")

        def scale(self, n=0, jobs=0):
            return super().scale(n + jobs)

    monkeypatch.setattr(dask_jobqueue, "SLURMCluster", Here)
    monkeypatch.chdir(tmp_path)
    code, found = re.subn(r"N, MEMBERS, JOBS = .*", "N, MEMBERS, JOBS = 200, 2, 1", SLURM)
    assert found == 1
    monkeypatch.setattr(ds, "train", quick(ds.train))
    exec(compile(code, "cluster.md", "exec"), {"__name__": "__main__"})
    assert "carry weight" in capsys.readouterr().out
    assert ds.Stacking.load(tmp_path / "run" / "fit.json").converged


def quick(train):
    return lambda *arguments, **options: train(*arguments, **options, epochs=2)


def test_a_table_is_written_in_parts_as_the_guide_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(WRITE, "cluster.md", "exec"), names)
    assert names["fit"].converged


def test_a_job_array_is_collected_as_the_guide_says(tmp_path, monkeypatch):
    if not hasattr(ds, "adapters"):
        pytest.skip("needs ds.adapters")
    monkeypatch.chdir(tmp_path)
    ds.simulate(ds.tasks.get("two_moons"), n=50, directory="validation")

    class Normal:
        def __init__(self, k):
            self.k = k

        def log_prob(self, theta, y):
            return -(((theta - 0.1 * self.k) ** 2).sum(1))

    for k in range(3):
        monkeypatch.setattr("sys.argv", ["member.py", str(k)])
        exec(compile(MEMBER, "cluster.md", "exec"), {"train_somehow": lambda seed: Normal(seed)})
    names: dict = {}
    exec(compile(COLLECT.replace("expected=1000", "expected=3"), "cluster.md", "exec"), names)
    assert names["fit"].names == ("member_0", "member_1", "member_2")


@pytest.mark.parametrize(
    ("guide", "name"),
    [(guide, name) for guide, names in GENERATED.items() for name in names],
)
def test_the_tables_of_benchmarks_are_those_of_the_results(guide, name):
    root = Path(__file__).parent.parent
    page = (root / "docs" / guide).read_text()
    (found,) = re.findall(rf"<!-- {name}:.*?-->\n(.*?)\n<!-- /{name} -->", page, re.DOTALL)
    assert found == runpy.run_path(str(root / "benchmarks" / "table.py"))["TABLES"][name]()
