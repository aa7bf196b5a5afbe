"""Twice as much takes at most twice as long and twice as much memory."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator

from bench.rig import Rig
from bench.scenario import REGISTRY, Figures, Goal, Run, scenario

STEPS = 4
"""Sizes, each twice the one before; the last is the scenario's."""


@scenario(
    "growth",
    "Twice the namespaces, copies and Bundles, up to {size}",
    size=2000,
    runs=1,
    goals={
        "namespaces_time": Goal("time when namespaces double, at worst", "times", 2.0),
        "namespaces_time_mean": Goal("time when namespaces double, on average", "times", 2.0),
        "copies_memory": Goal("memory when copies double, at worst", "times", 2.0),
        "copies_cpu": Goal("CPU time of a restart when copies double, at worst", "times", 2.0),
        "bundles_memory": Goal("memory when rules and Bundles double, at worst", "times", 2.0),
    },
    warm_up=False,
)
def growth(rig: Rig, size: int) -> Iterator[Run]:
    """The figures at each size are told too, for the plots."""
    sizes = [size // 2**step for step in reversed(range(STEPS))]

    def run() -> Figures:
        figures: dict[str, float] = {}
        for name, times, runs, wanted in (
            ("fan-out", 1, 5, {"create_seconds": "namespaces_time"}),
            ("restart", 10, 1, {"rss_mb": "copies_memory", "cpu_seconds": "copies_cpu"}),
            ("base", 0.1, 1, {"rss_mb": "bundles_memory"}),
        ):
            steps = [int(each * times) for each in sizes]
            curves = _at(rig, name, steps, runs, wanted)
            for figure, word in wanted.items():
                curve = curves[figure]
                figures[word] = max(b / a for a, b in itertools.pairwise(curve))
                if figure == "create_seconds":  # one step alone is too noisy
                    figures[f"{word}_mean"] = (curve[-1] / curve[0]) ** (1 / (len(curve) - 1))
                figures |= {f"{word}_at_{n}": v for n, v in zip(steps, curve, strict=True)}
        return figures

    yield run


def _at(
    rig: Rig, name: str, sizes: list[int], runs: int, wanted: Iterable[str]
) -> dict[str, list[float]]:
    """Figures of another scenario, by their names, at each size; the median of some runs."""
    curves: dict[str, list[float]] = {figure: [] for figure in wanted}
    for size in sizes:
        rig.tell(f"{name} with {size}")
        with REGISTRY[name].set_up(rig, size) as run:
            figures = [run() for _ in range(runs)]
        for figure in wanted:
            curves[figure].append(statistics.median(each[figure] for each in figures))
    return curves
