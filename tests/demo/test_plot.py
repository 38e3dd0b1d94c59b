"""The report's plots are well-formed SVG and show every finite point."""

from __future__ import annotations

import math
from xml.etree import ElementTree

from control_plane.demo.plot import Line, Marker, line_plot

SVG = "{http://www.w3.org/2000/svg}"


def test_a_plot_holds_every_curve_and_marker() -> None:
    lines = [
        Line(label="with <fault>", steps=range(5), values=[1.0, 2.0, math.nan, 4.0, math.inf]),
        Line(label="flat", steps=range(5), values=[3.0] * 5, faded=True),
    ]
    root = ElementTree.fromstring(line_plot("MaxVio & friends", lines, [Marker(step=2, label="resume")]))
    curves = root.findall(f"{SVG}polyline")
    texts = [text.text for text in root.findall(f"{SVG}text")]
    assert [len(curve.attrib["points"].split()) for curve in curves] == [3, 5]
    assert {"MaxVio & friends", "with <fault>", "flat", "resume"} <= set(texts)


def test_points_lie_inside_and_grow_upwards() -> None:
    root = ElementTree.fromstring(line_plot("one", [Line(label="a", steps=[0, 10], values=[0.0, 1e-9])]))
    curve = root.find(f"{SVG}polyline")
    assert curve is not None
    (x0, y0), (x1, y1) = (map(float, point.split(",")) for point in curve.attrib["points"].split())
    assert x0 < x1
    assert y0 > y1


def test_without_finite_points_it_says_so() -> None:
    assert "no points" in line_plot("empty", [Line(label="a", steps=[1], values=[math.nan])])
