"""Builders of panels, variables and queries for the dashboards."""

from collections.abc import Iterable, Mapping
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models.common import GraphThresholdsStyleMode, LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
RUNBOOKS = "http://127.0.0.1:8803/runbooks"
"""Default address of the runbooks, which the board of compose.yaml serves; the variable `runbooks` overrides it."""
OF = 'namespace=~"$namespace", release=~"$release"'
"""Selector of the installations that a user chooses."""
AT = "{{namespace}}/{{release}}"
"""The installation in the legend of a series."""
GREEN, AMBER, RED = "green", "orange", "red"
HIDDEN = {"legend": True, "tooltip": False, "viz": False}
Panel = Any
"""A panel builder; the builders share methods but no base class."""
Levels = Iterable[tuple[float, str]]
Targets = Mapping[str, str]
"""Expressions by the legend of their series."""


def graph(title: str, about: str, unit: str, targets: Targets, *, levels: Levels = (), runbook: str = "") -> Panel:
    """Return a panel of lines over time, with 0 at the bottom."""
    panel = _describe(timeseries.Panel(), title, about, unit, levels, runbook).span(12).height(8).min(0)
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    panel = panel.legend(legend.show_legend(True))
    if levels:
        panel = panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    return _add_queries(panel, targets)


def band(title: str, about: str, unit: str, share: str, low: str, high: str, *, each: str, runbook: str = "") -> Panel:
    """Return a panel of one line and the band around it, once for each chosen value of the variable `each`."""
    panel = graph(title, about, unit, {"share": share, "low": low, "high": high}, runbook=runbook).span(24)
    edge = [DynamicConfigValue("custom.lineWidth", 0), DynamicConfigValue("custom.hideFrom", HIDDEN)]
    filled = [DynamicConfigValue("custom.fillBelowTo", "low"), DynamicConfigValue("custom.fillOpacity", 20)]
    panel = panel.override_by_name("low", edge).override_by_name("high", [*filled, *edge])
    return panel.repeat(each).repeat_direction("h").max_per_row(3)


def figure(title: str, about: str, unit: str, expression: str, *, levels: Levels = (), runbook: str = "") -> Panel:
    """Return a panel with the newest number."""
    panel = _describe(stat.Panel(), title, about, unit, levels, runbook).span(6).height(4)
    return _add_queries(panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"])), {"": expression})


def rows(title: str, about: str, unit: str, targets: Targets, *, labels: Iterable[str], runbook: str = "") -> Panel:
    """Return a table with one row for each series: its `labels`, and a column for each expression."""
    values = {f"Value #{letter}": name for letter, name in zip("ABCDEFGH", targets, strict=False)}
    labels = ("namespace", "release", *labels)
    columns = {**{label: label for label in labels}, **(values if len(values) > 1 else {})}
    layout = {
        "indexByName": {name: position for position, name in enumerate(columns)},
        "includeByName": dict.fromkeys(columns, True),
        "renameByName": columns,
    }
    panel = _describe(table.Panel(), title, about, unit, (), runbook).span(12).height(8)
    panel = panel.with_transformation(DataTransformerConfig("merge", options={}))
    panel = panel.with_transformation(DataTransformerConfig("organize", options=layout))
    return _add_queries(panel, targets, instant=True)


def variable(name: str, label: str, query: str, *, several: bool = True) -> dashboard.QueryVariable:
    """Return a variable of label values, of which a user selects one, or also several or all."""
    builder = dashboard.QueryVariable(name).label(label).query(query).datasource(SOURCE)
    builder = builder.multi(several).include_all(several)
    if several:
        builder = builder.current(VariableOption(text="All", value="$__all", selected=True)).all_value(".*")
    return builder.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)


def board(
    name: str,
    title: str,
    about: str,
    alerts: str,
    variables: Iterable[Any],
    panels: Iterable[Panel],
    *,
    marks: Targets | None = None,
    several: bool = True,
) -> dashboard.Dashboard:
    """Return a dashboard with the common settings.

    Its graphs mark the alerts that match `alerts`, and the series of `marks` by their names.
    """
    builder = dashboard.Dashboard(f"hubbub: {title}").uid(f"hubbub-{name}").description(about).tags(["hubbub"])
    builder = builder.refresh("30s").time("now-1h", "now").timezone("browser").tooltip(DashboardCursorSync.CROSSHAIR)
    builder = builder.readonly().with_variable(
        dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    )
    build = "hubbub_build_info"
    installation = [
        variable("namespace", "Namespace", f"label_values({build}, namespace)", several=several),
        variable("release", "Release", f'label_values({build}{{namespace=~"$namespace"}}, release)', several=several),
    ]
    for item in (*installation, *variables):
        builder = builder.with_variable(item)
    address = VariableOption(text=RUNBOOKS, value=RUNBOOKS, selected=True)
    builder = builder.with_variable(
        dashboard.TextBoxVariable("runbooks").label("Runbooks at").default_value(RUNBOOKS).current(address)
    )
    firing = dashboard.AnnotationQuery().name("Alerts").datasource(SOURCE).enable(True).hide(False).icon_color(RED)
    builder = builder.annotation(firing.expr(f'ALERTS{{alertstate="firing", {OF}, {alerts}}}'))
    for mark, expression in (marks or {}).items():
        annotation = dashboard.AnnotationQuery().name(mark).datasource(SOURCE).enable(True).hide(False)
        builder = builder.annotation(annotation.icon_color(AMBER).expr(expression))
    others = dashboard.DashboardLink("Other dashboards").type(DashboardLinkType.DASHBOARDS).tags(["hubbub"])
    builder = builder.link(others.as_dropdown(True).keep_time(True).include_vars(True))
    for panel in panels:
        builder = builder.with_panel(panel)
    return builder


def rate(name: str, by: str, selector: str) -> str:
    """Return the expression of a counter's rate, summed by the labels `by`."""
    return f"sum by (namespace, release, {by}) (rate({_chosen(name, selector)}[$__rate_interval]))"


def quantile(share: float, name: str, selector: str) -> str:
    """Return the expression of a histogram's quantile."""
    return f"histogram_quantile({share}, {rate(name + '_bucket', 'le', selector)})"


def newest(name: str, selector: str, by: str = "query, attribute") -> str:
    """Return the expression of a gauge's maximum over all processes that report it."""
    return f"max by (namespace, release, {by}) ({_chosen(name, selector)})"


def _chosen(name: str, selector: str) -> str:
    return f"{name}{{{OF}, {selector}}}" if selector else f"{name}{{{OF}}}"


def _describe(panel: Panel, title: str, about: str, unit: str, levels: Levels, runbook: str) -> Panel:
    steps = [Threshold(None, GREEN), *(Threshold(value, colour) for value, colour in levels)]
    limits = dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
    panel = panel.title(title).description(about).unit(unit).thresholds(limits).datasource(SOURCE)
    if runbook:
        link = dashboard.DashboardLink(runbook).type(DashboardLinkType.LINK).url(f"${{runbooks}}/{runbook}.md")
        panel = panel.links([link.target_blank(True)])
    return panel


def _add_queries(panel: Panel, targets: Targets, *, instant: bool = False) -> Panel:
    for letter, (legend, expression) in zip("ABCDEFGH", targets.items(), strict=False):
        query = prometheus.Dataquery().expr(expression).legend_format(legend).datasource(SOURCE).ref_id(letter)
        query = query.instant().format(PromQueryFormat.TABLE) if instant else query.range()
        panel = panel.with_target(query)
    return panel
