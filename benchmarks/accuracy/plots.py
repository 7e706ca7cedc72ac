"""Plots as small PNG files."""

from io import BytesIO
from pathlib import Path

from benchmarks.accuracy.study import Panel, Plot

COLOURS = ["#1d3b6f", "#d1495b", "#2e8b57", "#e09f3e", "#7b5ea7", "#4aa3c7", "#8c6d46", "#000000"]


def draw(plot: Plot, path: Path) -> None:
    """Draw the panels side by side into one file."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt
    from PIL import Image

    has_common_legend = (
        len({tuple(line.label for line in panel.lines) for panel in plot.panels}) == 1 < len(plot.panels)
    )
    across = min(len(plot.panels), 3)
    down = -(-len(plot.panels) // across)
    figure, grid = plt.subplots(down, across, figsize=(4.3 * across, 3.7 * down), layout="constrained", squeeze=False)
    for ax in grid.flat[len(plot.panels) :]:
        ax.set_visible(False)
    for panel, ax in zip(plot.panels, grid.flat, strict=False):
        _panel(panel, ax)
        if not has_common_legend:
            ax.legend(fontsize=7.5, framealpha=0.85)
    if has_common_legend:
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4 * (across - 1), fontsize=8)
    buffer = BytesIO()
    figure.savefig(buffer, dpi=92)
    plt.close(figure)
    Image.open(buffer).convert("RGB").quantize(128).save(path, optimize=True)


def _panel(panel: Panel, ax: object) -> None:
    for i, line in enumerate(panel.lines):
        colour = COLOURS[i % len(COLOURS)]
        ax.errorbar(
            line.x,
            line.y,
            yerr=line.errors or None,
            fmt=line.style,
            markersize=3.5,
            linewidth=1.3,
            capsize=2,
            color=colour,
            label=line.label,
        )
    if panel.level is not None:
        ax.axhline(panel.level, color="#999999", linewidth=1, zorder=0)
    if "x" in panel.log:
        ax.set_xscale("log")
        ticks = sorted({x for line in panel.lines for x in line.x})
        ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
        ax.minorticks_off()
    if "s" in panel.log:  # the axis includes 0
        ax.set_xscale("symlog", linthresh=1e-3)
        ax.set_xlim(left=-2e-4)
    if "y" in panel.log:
        ax.set_yscale("log")
    ax.set_title(panel.title, fontsize=10)
    ax.set_xlabel(panel.x, fontsize=9)
    ax.set_ylabel(panel.y.replace("sigma^2", "σ²"), fontsize=9)
    ax.tick_params(labelsize=8)
    ax.grid(alpha=0.25, linewidth=0.6)
