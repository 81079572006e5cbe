"""Tables out of one file a member."""

import numpy as np
import pytest

import drystone as ds
from drystone.adapters import from_files, to_file
from helpers.tables import make_table

SUFFIXES = (".npz", ".zarr", ".h5", ".hdf5", ".nc")
TABLE = make_table(K=5, N=9, S=7, d=3)


def write(directory, k, suffix, **more):
    arguments = {"log_q": TABLE.log_q[k], "draws": TABLE.draws[k], "theta": TABLE.theta} | more
    to_file(directory / f"member_{k}{suffix}", **arguments)


@pytest.fixture
def directory(tmp_path):
    for k, suffix in enumerate(SUFFIXES):
        write(tmp_path, k, suffix)
    return tmp_path


def test_files_of_every_kind_make_the_table_they_were_written_from(directory):
    table = from_files(str(directory / "*"))
    assert table.names == tuple(f"member_{k}" for k in range(5))
    np.testing.assert_array_equal(table.theta, TABLE.theta)
    np.testing.assert_array_equal(table.log_q, TABLE.log_q)
    np.testing.assert_array_equal(table.draws, TABLE.draws)
    np.testing.assert_array_equal(table.rank, TABLE.rank)
    np.testing.assert_array_equal(table.select(members=[3, 1], rows=[2, 0]).draws, TABLE.draws[[3, 1]][:, [2, 0]])
    np.testing.assert_allclose(ds.stack(table).weights, ds.stack(TABLE).weights)
    table.save(directory / "table.zarr")
    np.testing.assert_array_equal(ds.Table.load(directory / "table.zarr").draws, TABLE.draws)


def test_draws_are_read_when_they_are_looked_at(directory):
    table = from_files(str(directory / "member_*"))
    np.testing.assert_array_equal(table.draws[2, 1:3, :, 0], TABLE.draws[2, 1:3, :, 0])
    (directory / "member_0.npz").unlink()
    np.testing.assert_array_equal(table.draws[3], TABLE.draws[3])
    with pytest.raises(FileNotFoundError):
        table.draws[0]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_statistics_data_and_names_come_back(tmp_path, suffix):
    rng = np.random.default_rng(0)
    held = {
        "rank": rng.random((4, 2)),
        "mean": rng.normal(size=(4, 2)),
        "cov": np.stack([np.eye(2) + k for k in range(4)]),
    }
    low, y = rng.normal(size=(4, 2)), rng.normal(size=(4, 3, 2))
    for name in ("a", "b"):
        path = tmp_path / f"job_{name}{suffix}"
        to_file(path, **held, quantiles={0.95: low + 1, 0.05: low}, theta=low, y=y, name=f"the {name}")
    table = from_files(str(tmp_path / f"job_*{suffix}"), parameters=["p", "q"])
    assert table.names == ("the a", "the b")
    assert table.parameters == ("p", "q")
    np.testing.assert_array_equal(table.y, y)
    np.testing.assert_array_equal(table.quantile(0.95)[1], low + 1)
    for key, array in held.items():
        np.testing.assert_array_equal(getattr(table, key)[1], array)


def test_members_are_in_natural_order_or_that_of_their_expected_names(tmp_path):
    for k in (2, 10, 1):
        to_file(tmp_path / f"m_{k}.npz", log_q=np.arange(3.0) + k)
    table = from_files(str(tmp_path / "*.npz"), theta=np.zeros((3, 1)))
    assert table.names == ("m_1", "m_2", "m_10")
    table = from_files(str(tmp_path / "*.npz"), theta=np.zeros((3, 1)), expected=["m_10", "m_1", "m_2"])
    assert table.names == ("m_10", "m_1", "m_2")
    np.testing.assert_array_equal(table.log_q[0], [10, 11, 12])


def test_all_that_is_wrong_is_named_at_once(tmp_path):
    for k, suffix in enumerate((".h5", ".zarr", ".npz", ".npz", ".npz")):
        write(tmp_path, k, suffix)
    for name in ("member_0.h5", "member_2.npz"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:500])
    write(tmp_path, 1, ".nc", draws=TABLE.draws[1][:, :6], name="few draws")
    write(tmp_path, 3, ".nc", theta=TABLE.theta + 1, name="others")
    write(tmp_path, 4, ".h5")
    expected = [f"member_{k}" for k in (0, 1, 2, 3, 4, 99)]
    with pytest.raises(ValueError, match="6 members are missing or unusable") as raised:
        from_files(str(tmp_path / "*"), expected=[*expected, "others", "few draws"])
    message = str(raised.value)
    for words in (
        "member_0.h5 cannot be read (OSError",
        "member_2.npz cannot be read (BadZipFile",
        "member_1.nc has draws (9, 6, 3); the others have draws (9, 7, 3)",
        "has the name 'member_4', as",
        "has theta of other simulations, first in row 0",
        "member_99: there is no file",
        'missing="drop"',
    ):
        assert words in message


def test_the_rest_goes_on_if_asked_and_the_table_remembers(directory):
    (directory / "member_0.npz").write_bytes(b"PK")
    with pytest.warns(UserWarning, match=r"(?s)2 members are missing.*member_0.npz cannot be read.*Continuing"):
        table = from_files(str(directory / "*"), expected=6, missing="drop")
    assert table.names == ("member_1", "member_2", "member_3", "member_4")
    assert list(table.left_out) == ["member_0", "1 more"]
    assert table.left_out["1 more"] == "expected 6 files, found 5"


def test_two_broken_files_of_one_stem_are_both_named(directory):
    for name in ("member_0.npz", "member_0.h5"):
        (directory / name).write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"(?s)2 members are missing.*member_0.h5 cannot.*member_0.npz cannot"):
        from_files(str(directory / "*"))
    with pytest.raises(ValueError, match=r"(?s)^3 members are missing.*expected 7 files, found 6"):
        from_files(str(directory / "*"), expected=7)


@pytest.mark.parametrize("expected", [4, np.int64(4)])
def test_more_files_than_expected_are_reported(directory, expected):
    with pytest.raises(ValueError, match="1 too many: expected 4 files, found 5; usable: member_0, member_1"):
        from_files(str(directory / "*"), expected=expected)
    assert len(from_files(str(directory / "*"), expected=np.int64(5)).names) == 5


def test_fields_that_some_lack_are_nan_for_these(directory):
    write(directory, 1, ".zarr", draws=None)
    with pytest.warns(UserWarning, match="the files of member_1 have no `draws`"):
        table = from_files(str(directory / "*"))
    np.testing.assert_array_equal(table.log_q, TABLE.log_q)
    np.testing.assert_array_equal(table.has("draws"), [True, False, True, True, True])
    np.testing.assert_array_equal(table.mean[2:], TABLE.mean[2:])
    assert np.isnan(table.mean[1]).all()
    assert np.isnan(table.draws[1]).all()
    assert table.left_out == {}
    fit = ds.stack(table, score=ds.MeanScore())
    assert fit.dropped["members"] == ["member_1"]


def test_files_with_nothing_in_common_are_in_one_table(directory):
    write(directory, 0, ".npz", draws=None)
    write(directory, 1, ".zarr", log_q=None)
    for k, suffix in enumerate(SUFFIXES[2:], 2):
        write(directory, k, suffix, draws=None)
    with (
        pytest.warns(UserWarning, match="the files of member_1 have no `log_q`"),
        pytest.warns(UserWarning, match=r"the files of member_0, .* have no `draws`"),
    ):
        table = from_files(str(directory / "*"))
    assert table.gives == TABLE.gives
    np.testing.assert_array_equal(table.has("log_q"), ~table.has("draws"))


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_a_whole_table_is_not_taken_for_a_member(tmp_path, suffix):
    TABLE.save(tmp_path / f"table{suffix}")
    with pytest.raises(ValueError, match=r"this is a whole table, .* `ds.Table.load`"):
        from_files(str(tmp_path / "*"))


def test_a_single_number_is_named(tmp_path):
    np.savez(tmp_path / "m.npz", log_q=np.zeros(3), theta=3.0)
    with pytest.raises(ValueError, match=r"m.npz cannot be read .*`theta` is a single number"):
        from_files(str(tmp_path / "*"))
    np.savez(tmp_path / "m.npz", log_q=np.zeros(3), seed=3)  # what else a job keeps is its own
    for wrong in ({"theta": 3.0}, {"theta": np.zeros((3, 1)), "y": 2.0}):
        key = list(wrong)[-1]
        with pytest.raises(ValueError, match=f"`{key}` must have one row per simulation; got the single num"):
            from_files(str(tmp_path / "*"), **wrong)  # pyright: ignore[reportArgumentType]


def test_a_store_whose_chunks_are_missing_is_not_taken_for_zeros(tmp_path):
    import zarr

    for k in range(3):
        write(tmp_path, k, ".zarr")
    group = zarr.open_group(tmp_path / "member_1.zarr", mode="a")
    group.attrs.clear()  # as if it was made elsewhere, without a seal
    group.create_array("mean", shape=(9, 3), chunks=(3, 3), dtype=float)[:3] = 1.0
    with pytest.raises(ValueError, match=r"member_1.zarr cannot be read .*mean is damaged: it has 1 of 3 chunks"):
        from_files(str(tmp_path / "*"))


def test_pickles_are_never_loaded(tmp_path):
    np.savez(tmp_path / "evil.npz", log_q=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match=r"evil.npz cannot be read .*`log_q` is object"):
        from_files(str(tmp_path / "*.npz"), theta=np.zeros((1, 1)))


def test_theta_given_is_held_against_the_files(directory):
    with pytest.raises(ValueError, match=r"has theta of shape \(9, 3\), not \(8, 3\)"):
        from_files(str(directory / "*"), theta=TABLE.theta[:8])
    assert from_files(str(directory / "*"), theta=TABLE.theta.astype(np.float32)).N == 9


def test_data_are_held_against_each_other_and_those_given(tmp_path):
    y = np.random.default_rng(0).normal(size=(9, 2, 2))
    y[3, 0, 1] = np.nan  # data may be missing
    for k in range(4):
        write(tmp_path, k, ".npz", y=y if k != 2 else y[::-1])
    with pytest.raises(
        ValueError, match=r"(?s)1 member is.*member_2.npz has y of other simulations, first in row 0"
    ):
        from_files(str(tmp_path / "*"))
    with pytest.raises(ValueError, match=r"(?s)3 members.*member_0.npz has y of other simulations"):
        from_files(str(tmp_path / "*"), y=y[::-1])
    with pytest.raises(ValueError, match=r"(?s)4 members.*member_0.npz has y of shape \(9, 4\), not \(9, 5\)"):
        from_files(str(tmp_path / "*"), y=np.zeros((9, 5)))


def test_parameters_are_compared_on_the_scale_of_their_column(tmp_path):
    theta = np.column_stack([np.linspace(-1e3, 1e3, 9), np.linspace(1.0, 2.0, 9)])
    theta[4, 0] = 1e-9  # what is left of a difference of large numbers
    for k in range(3):
        shift = [1e-4 * k, 0.0]  # 1e-7 of the column
        to_file(tmp_path / f"{k}.npz", log_q=np.zeros(9), theta=theta + shift)
    assert from_files(str(tmp_path / "*")).K == 3
    to_file(tmp_path / "3.npz", log_q=np.zeros(9), theta=theta + np.array([0.0, 1e-4]))
    with pytest.raises(ValueError, match=r"3.npz has theta of other simulations"):
        from_files(str(tmp_path / "*"), theta=theta)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"log_q": np.zeros(8)}, r"`log_q` must have shape \(N\) = \(9\); got \(8,\)"),
        ({"draws": np.zeros((9, 7, 2))}, r"`draws` must have shape \(N, S, d\) = \(9, S, 3\)"),
        ({"draws": np.zeros((9, 7))}, r"`draws` must have shape"),
        ({"mean": np.zeros((3, 9))}, r"`mean` must have shape .* Is it transposed\?"),
        ({"cov": np.zeros((9, 3, 2))}, r"`cov` must have shape"),
        ({"quantiles": {0.1: np.zeros((9, 2))}}, r"`quantiles\[0.1\]` must have shape"),
        ({"y": np.zeros((8, 2))}, r"`y` must have shape \(N, ...\) with N = 9 simulations; got \(8, 2\)"),
        ({"y": 3.0}, r"`y` must have shape"),
        ({"theta": 3.0}, r"`theta` must have shape"),
    ],
)
def test_what_does_not_fit_together_is_not_written(tmp_path, suffix, wrong, message):
    with pytest.raises(ValueError, match=message):
        write(tmp_path, 0, suffix, **wrong)
    assert list(tmp_path.iterdir()) == []


def test_one_parameter_needs_no_axis(tmp_path):
    for k in range(2):
        to_file(tmp_path / f"{k}.npz", draws=TABLE.draws[k, :, :, 0], theta=TABLE.theta[:, 0])
    table = from_files(str(tmp_path / "*.npz"))
    assert table.draws.shape == (2, 9, 7, 1)
    np.testing.assert_array_equal(table.draws[1, :, :, 0], TABLE.draws[1, :, :, 0])


def test_wrong_arguments_say_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file matches"):
        from_files(str(tmp_path / "*.npz"))
    with pytest.raises(ValueError, match="`paths` is empty"):
        from_files([])
    with pytest.raises(ValueError, match="no such file"):
        from_files([tmp_path / "gone.npz"])
    with pytest.raises(ValueError, match=r"must end in one of .npz, .zarr"):
        to_file(tmp_path / "m.pkl", log_q=np.zeros(3))
    with pytest.raises(ValueError, match="at least one of `log_q`"):
        to_file(tmp_path / "m.npz", theta=np.zeros((3, 1)))
    with pytest.raises(TypeError, match="`log_q` must hold real numbers"):
        to_file(tmp_path / "m.npz", log_q=np.array(["a"]))
    to_file(tmp_path / "m.npz", log_q=np.zeros(3))
    with pytest.raises(ValueError, match="no file has `theta`"):
        from_files(str(tmp_path / "m.npz"))
    with pytest.raises(ValueError, match='`missing` must be "raise" or "drop"'):
        from_files(str(tmp_path / "m.npz"), missing="ignore")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="`expected` must be names or a number"):
        from_files(str(tmp_path / "m.npz"), expected="m")
