"""Views give the places at which NumPy finds the elements."""

from __future__ import annotations

import numpy as np

from tvmbuild.compiler.kernels.attention.views import Factor, View, dense, refine


def places(view: View) -> np.ndarray:
    """Return the place of each element."""
    found = np.full(view.shape, view.offset)
    for axis, factors in enumerate(view.axes):
        along = np.zeros(1, int)
        for factor in factors:
            along = (along[:, None] + np.arange(factor.extent) * factor.stride).ravel()
        found = found + along.reshape([-1 if each == axis else 1 for each in range(len(view.axes))])
    return found


def test_transposed_reshaped_sliced_and_repeated() -> None:
    source = np.arange(2 * 6 * 24).reshape(2, 6, 24)
    view = dense(source.shape).slice(2, 8, 16)
    assert view is not None
    view = view.reshape((2, 6, 4, 2))
    assert view is not None
    np.testing.assert_array_equal(places(view), source[:, :, 8:16].reshape(2, 6, 4, 2))
    turned = view.permute((0, 2, 1, 3)).reshape((8, 6, 2))
    assert turned is not None
    want = source[:, :, 8:16].reshape(2, 6, 4, 2).transpose(0, 2, 1, 3).reshape(8, 6, 2)
    np.testing.assert_array_equal(places(turned), want)
    np.testing.assert_array_equal(places(turned.repeat(0, 3, each=True)), np.repeat(want, 3, 0))
    np.testing.assert_array_equal(places(turned.repeat(0, 3, each=False)), np.tile(want, (3, 1, 1)))
    part = turned.slice(0, 4, 8)
    assert part is not None
    np.testing.assert_array_equal(places(part), want[4:])
    assert turned.slice(0, 3, 8) is None


def test_what_no_factor_divides_is_no_view() -> None:
    turned = dense((6, 5)).permute((1, 0))
    assert turned.reshape((10, 3)) is not None
    assert dense((4, 5)).permute((1, 0)).reshape((2, 10)) is None


def test_dense() -> None:
    view = dense((4, 3, 5))
    assert view.is_dense()
    assert not view.permute((1, 0, 2)).is_dense()
    again = view.permute((1, 0, 2)).permute((1, 0, 2)).reshape((12, 5))
    assert again is not None
    assert again.is_dense()
    part = view.slice(0, 1, 4)
    assert part is not None
    assert not part.is_dense()


def test_axes_in_common_factors() -> None:
    assert refine([(Factor(12, 5),), (Factor(3, 1), Factor(4, 0))]) == [
        (Factor(3, 20), Factor(4, 5)),
        (Factor(3, 1), Factor(4, 0)),
    ]
    assert refine([(Factor(3, 1), Factor(2, 3)), (Factor(2, 1), Factor(3, 2))]) is None
