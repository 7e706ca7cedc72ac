"""The kinds of panels, variables and annotations that the dashboards are made of."""

from collections.abc import Iterable, Mapping
from typing import Any

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models.common import GraphThresholdsStyleMode, LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
RUNBOOKS = "deploy/runbooks"
"""Where runbooks are, until somebody writes their address into the variable of that name."""
GREEN, AMBER, RED = "green", "orange", "red"
Panel = Any
"""The builders share their methods, and no base class."""
Levels = Iterable[tuple[float, str]]
Targets = Mapping[str, str]
"""Expressions, by the legend of their series."""


def graph(title: str, about: str, unit: str, targets: Targets, *, levels: Levels = (), runbook: str = "") -> Panel:
    """Lines over time, from 0 up."""
    panel = _described(timeseries.Panel(), title, about, unit, levels, runbook).span(12).height(8).min(0)
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    panel = panel.legend(legend.show_legend(True))
    if levels:
        panel = panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    return _asking(panel, targets)


def figure(title: str, about: str, unit: str, expression: str, *, levels: Levels = (), runbook: str = "") -> Panel:
    """One number, the newest."""
    panel = _described(stat.Panel(), title, about, unit, levels, runbook).span(6).height(4)
    return _asking(panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"])), {"": expression})


def bars(title: str, about: str, unit: str, targets: Targets, *, runbook: str = "") -> Panel:
    """One bar a series, as long as its newest number."""
    panel = _described(bargauge.Panel(), title, about, unit, (), runbook).span(12).height(8)
    return _asking(panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"])), targets)


def rows(title: str, about: str, unit: str, targets: Targets, *, labels: Iterable[str]) -> Panel:
    """A table, one row a series, with these labels and a column for each expression."""
    values = {f"Value #{letter}": name for letter, name in zip("ABCDEFGH", targets, strict=False)}
    columns = {**{label: label for label in labels}, **(values if len(values) > 1 else {})}
    arranged = {
        "indexByName": {name: position for position, name in enumerate(columns)},
        "includeByName": dict.fromkeys(columns, True),
        "renameByName": columns,
    }
    panel = _described(table.Panel(), title, about, unit, (), "").span(12).height(8)
    panel = panel.with_transformation(DataTransformerConfig("merge", options={}))
    panel = panel.with_transformation(DataTransformerConfig("organize", options=arranged))
    return _asking(panel, targets, instant=True)


def variable(name: str, label: str, query: str) -> dashboard.QueryVariable:
    """The values of a label: one of them, several or all are chosen."""
    made = dashboard.QueryVariable(name).label(label).query(query).datasource(SOURCE).multi(True).include_all(True)
    made = made.current(VariableOption(text="All", value="$__all", selected=True)).all_value(".*")
    return made.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)


def board(
    name: str, title: str, about: str, alerts: str, variables: Iterable[Any], panels: Iterable[Panel]
) -> dashboard.Dashboard:
    """A dashboard, with what all of them share; the alerts that `alerts` selects are marked in each of its graphs."""
    made = dashboard.Dashboard(f"hubbub: {title}").uid(f"hubbub-{name}").description(about).tags(["hubbub"])
    made = made.refresh("30s").time("now-1h", "now").timezone("browser").tooltip(DashboardCursorSync.CROSSHAIR)
    made = made.readonly().with_variable(
        dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    )
    for one in variables:
        made = made.with_variable(one)
    where = VariableOption(text=RUNBOOKS, value=RUNBOOKS, selected=True)
    made = made.with_variable(
        dashboard.TextBoxVariable("runbooks").label("Runbooks at").default_value(RUNBOOKS).current(where)
    )
    firing = dashboard.AnnotationQuery().name("Alerts").datasource(SOURCE).enable(True).hide(False).icon_color(RED)
    made = made.annotation(firing.expr(f'ALERTS{{alertstate="firing", {alerts}}}'))
    others = dashboard.DashboardLink("Other dashboards").type(DashboardLinkType.DASHBOARDS).tags(["hubbub"])
    made = made.link(others.as_dropdown(True).keep_time(True).include_vars(True))
    for panel in panels:
        made = made.with_panel(panel)
    return made


def rate(name: str, by: str, chosen: str) -> str:
    """How fast a counter grows."""
    return f"sum by ({by}) (rate({name}{{{chosen}}}[$__rate_interval]))"


def quantile(share: float, name: str, chosen: str) -> str:
    """Of a histogram."""
    return f"histogram_quantile({share}, {rate(name + '_bucket', 'le', chosen)})"


def newest(name: str, chosen: str, by: str = "query, attribute") -> str:
    """A number of finals, by whoever knows it."""
    return f"max by ({by}) ({name}{{{chosen}}})"


def _described(panel: Panel, title: str, about: str, unit: str, levels: Levels, runbook: str) -> Panel:
    steps = [Threshold(None, GREEN), *(Threshold(value, colour) for value, colour in levels)]
    limits = dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
    panel = panel.title(title).description(about).unit(unit).thresholds(limits).datasource(SOURCE)
    if runbook:
        link = dashboard.DashboardLink(runbook).type(DashboardLinkType.LINK).url(f"${{runbooks}}/{runbook}.md")
        panel = panel.links([link.target_blank(True)])
    return panel


def _asking(panel: Panel, targets: Targets, *, instant: bool = False) -> Panel:
    for letter, (legend, expression) in zip("ABCDEFGH", targets.items(), strict=False):
        query = prometheus.Dataquery().expr(expression).legend_format(legend).datasource(SOURCE).ref_id(letter)
        query = query.instant().format(PromQueryFormat.TABLE) if instant else query.range()
        panel = panel.with_target(query)
    return panel
