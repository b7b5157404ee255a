"""The picture of `dbtm demo simplex`: where the learned and the exact map send the points of the plane."""

from pathlib import Path

import numpy as np
import pytest

from dbtm.theory.flow import transport_map
from dbtm.viz.simplex import draw_learned_beside_exact, save_learned_beside_exact

P = (0.5, 0.3, 0.2)


def images(figure) -> list[np.ndarray]:
    return [axis.get_images()[0].get_array() for axis in figure.axes]


def test_equal_maps_look_equal() -> None:
    figure = draw_learned_beside_exact(lambda x: transport_map(x, P), P, cells=20)
    learned, exact = images(figure)
    assert np.array_equal(learned, exact)
    assert set(np.unique(exact)) == {0, 1, 2}
    assert "100.0% of the area agrees" in figure.get_suptitle()


def test_agreement_is_the_share_of_equal_cells() -> None:
    """A map that sends everything to e_1 agrees on the basin of e_1."""
    figure = draw_learned_beside_exact(lambda x: np.zeros(len(x), dtype=int), P, cells=20)
    _, exact = images(figure)
    share = np.mean(exact == 0)
    assert 0.3 < share < 0.7
    assert f"{share:.1%} of the area agrees" in figure.get_suptitle()


def test_points_are_in_the_plane_and_the_file_is_complete(tmp_path: Path) -> None:
    points = []

    def learned_vertex(x: np.ndarray) -> np.ndarray:
        points.append(x)
        return x.argmax(axis=-1)

    path = save_learned_beside_exact(learned_vertex, P, tmp_path / "new" / "map.png", cells=20)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert list(path.parent.iterdir()) == [path]
    (x,) = points
    assert x.shape == (20 * 20, 3)
    assert x.sum(axis=-1) == pytest.approx(1.0)
