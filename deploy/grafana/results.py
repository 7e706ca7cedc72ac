"""The dashboards about results: their age, their accuracy and their values."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import units
from panels import AMBER, AT, OF, RED, band, board, figure, graph, newest, rate, rows, variable

QUERIES = variable("query", "Query", f"label_values(hubbub_reports_total{{{OF}}}, query)")
ONE = variable("query", "Query", f"label_values(hubbub_reports_total{{{OF}}}, query)", several=False)
Q = 'query=~"$query"'
"""Selector of the variable `query`."""


def overview() -> dashboard.Dashboard:
    machinery = 'alertname=~"Hubbub.*", severity!="info"'
    late = f"hubbub:unpublished_age:seconds{{{OF}}} > bool 30"
    return board(
        "overview",
        "Overview",
        "Health of the system: workers, age of the results, reports and refusals.",
        machinery,
        [QUERIES],
        [
            figure(
                "Workers",
                "Workers that answer.",
                units.Short,
                f'count(up{{job="hubbub-worker", {OF}}} == 1) or vector(0)',
                runbook="HubbubNoWorker",
            ),
            figure(
                "Alerts",
                "Firing alerts, without those about the crowd.",
                units.Short,
                f'count(ALERTS{{alertstate="firing", {OF}, {machinery}}}) or vector(0)',
                levels=[(1, RED)],
            ),
            figure(
                "Late queries",
                "Queries with a window that holds reports and is not published in time.",
                units.Short,
                f"sum({late})",
                levels=[(1, RED)],
                runbook="HubbubFinalsStale",
            ),
            figure(
                "Lost records",
                "Records that Kafka deleted in the last day before a worker read them.",
                units.Short,
                f"sum(increase(hubbub_lost_records_total{{{OF}}}[1d]))",
                levels=[(1, RED)],
                runbook="HubbubRecordsLost",
            ),
            graph(
                "Unpublished",
                "Time by which the oldest window with reports is past its lateness without a final.",
                units.Seconds,
                {f"{{{{query}}}} {AT}": f"hubbub:unpublished_age:seconds{{{OF}, {Q}}}"},
                levels=[(30, RED)],
                runbook="HubbubFinalsStale",
            ),
            graph(
                "Age of the newest final",
                "It grows to the next final, and while no client answers. The second line is the usual limit.",
                units.Seconds,
                {
                    f"{{{{query}}}} {AT}": f"hubbub:newest_final_age:seconds{{{OF}, {Q}}}",
                    f"{{{{query}}}} {AT}: at most": f"hubbub:expected_final_age:seconds{{{OF}, {Q}}}",
                },
                runbook="HubbubFinalsStale",
            ),
            graph(
                "Reports",
                "Reports counted, by query.",
                units.CountsPerSecond,
                {f"{{{{query}}}} {AT}": rate("hubbub_reports_total", "query", Q)},
            ),
            graph(
                "Lag",
                "Delay of reading and of publishing.",
                units.Seconds,
                {
                    f"reading {AT}": f"max by (namespace, release) (hubbub_lag_seconds{{{OF}}})",
                    f"publishing {AT}": f"max by (namespace, release) (hubbub_publish_lag_seconds{{{OF}}})",
                },
                levels=[(60, RED)],
                runbook="HubbubReadingBehind",
            ),
            graph(
                "Refused",
                "Refused share of reports and of frames, by reason. Series without a query are of unknown queries.",
                units.PercentUnit,
                {
                    f"{{{{query}}}} {{{{reason}}}} {AT}": f'hubbub:rejected:ratio15m{{{OF}, query=~"$query|"}}',
                    f"frames {{{{reason}}}} {AT}": f"hubbub:rejected_frames:ratio15m{{{OF}}}",
                },
                levels=[(0.01, AMBER)],
                runbook="HubbubRejectsHigh",
            ),
            graph(
                "Values that enter, leave, surge or fade",
                "Changes in 5 minutes, without those of first windows.",
                units.Short,
                {"{{query}} {{kind}}": f'hubbub:alerts:increase5m{{{OF}, {Q}, baseline="false"}}'},
                runbook="HubbubHitterEntered",
            ),
            graph(
                "Flags",
                "Share of the last hour's finals with a quality flag.",
                units.PercentUnit,
                {f"{{{{query}}}} {{{{flag}}}} {AT}": f"hubbub:flagged:ratio1h{{{OF}, {Q}}}"},
                levels=[(0.5, AMBER)],
                runbook="HubbubPoisoningSuspected",
            ),
        ],
    )


def query() -> dashboard.Dashboard:
    value = "query, attribute, value"
    total = f'{Q}, group=""'
    one = f'{total}, attribute=~"$attribute", value=~"$value"'
    by_group = f'{Q}, group!="", group=~"$group"'
    in_group = "query, attribute, group, value"
    quantile_by_group = f'{Q}, group=~"$group", quantile=~"$quantile"'
    in_quantile = "query, attribute, group, quantile"
    with_group = f'{{__name__=~"hubbub_top_share|hubbub_group_quantile", {OF}, {Q}, group!=""}}'
    quantile = f'{Q}, quantile=~"$quantile"'
    in_range = f'{Q}, range=~"$range"'
    frequent = f"{{}} and {newest('hubbub_hitter_share', Q, value).replace('{', '{{').replace('}', '}}')}"
    changes = f'hubbub:alerts:increase5m{{{OF}, {Q}, kind="%s", baseline="false"}} > 0'
    shares = f"hubbub_top_share{{{OF}, {total}"
    return board(
        "query",
        "Query",
        "Results of a query, and how sure they are.",
        f'alertname=~"Hubbub.*", {Q}',
        [
            ONE,
            variable("attribute", "Attribute", f"label_values({shares}}}, attribute)", several=False),
            variable("value", "Value", f'label_values({shares}, attribute=~"$attribute"}}, value)'),
            variable("group", "Group", f"label_values({with_group}, group)"),
            variable("quantile", "Quantile", f"label_values(hubbub_quantile{{{OF}, {Q}}}, quantile)"),
            variable("range", "Range", f"label_values(hubbub_range_share{{{OF}, {Q}}}, range)"),
        ],
        [
            rows(
                "Top values",
                "Unbiased shares with their intervals in the newest final of the shortest window.",
                units.PercentUnit,
                {
                    "share": newest("hubbub_top_share", total, value),
                    "low": newest("hubbub_top_share_low", total, value),
                    "high": newest("hubbub_top_share_high", total, value),
                },
                labels=["query", "attribute", "value"],
            ),
            rows(
                "Heavy hitters",
                "Values proved frequent in the newest final of the shortest window, with the first ten intervals.",
                units.PercentUnit,
                {
                    "share": newest("hubbub_hitter_share", Q, value),
                    "low": frequent.format(newest("hubbub_top_share_low", total, value)),
                    "high": frequent.format(newest("hubbub_top_share_high", total, value)),
                },
                labels=["query", "attribute", "value"],
                runbook="HubbubHitterEntered",
            ),
            rows(
                "Top values by group",
                "Unbiased shares with their intervals in each group, five of each. Only for queries with groups.",
                units.PercentUnit,
                {
                    "share": newest("hubbub_top_share", by_group, in_group),
                    "low": newest("hubbub_top_share_low", by_group, in_group),
                    "high": newest("hubbub_top_share_high", by_group, in_group),
                },
                labels=["query", "attribute", "group", "value"],
            ),
            rows(
                "Quantiles by group",
                "Quantiles with their intervals in each group. Only for queries of numbers with groups.",
                units.Short,
                {
                    "number": newest("hubbub_group_quantile", quantile_by_group, in_quantile),
                    "low": newest("hubbub_group_quantile_low", quantile_by_group, in_quantile),
                    "high": newest("hubbub_group_quantile_high", quantile_by_group, in_quantile),
                },
                labels=["query", "attribute", "group", "quantile"],
            ),
            graph(
                "Shares by group over time",
                "Unbiased shares of the chosen values in each group. The table of top values has their intervals.",
                units.PercentUnit,
                {
                    f"{{{{attribute}}}} {{{{value}}}} {{{{group}}}} {AT}": newest(
                        "hubbub_top_share", f'{by_group}, attribute=~"$attribute", value=~"$value"', in_group
                    )
                },
            ),
            graph(
                "Quantiles by group over time",
                "The chosen quantiles in each group. The table of quantiles has their intervals.",
                units.Short,
                {
                    f"{{{{attribute}}}} {{{{quantile}}}} {{{{group}}}} {AT}": newest(
                        "hubbub_group_quantile", quantile_by_group, in_quantile
                    )
                },
            ),
            band(
                "$value",
                "Unbiased share and its interval. A line ends when its value is no longer among the first.",
                units.PercentUnit,
                newest("hubbub_top_share", one, value),
                newest("hubbub_top_share_low", one, value),
                newest("hubbub_top_share_high", one, value),
                each="value",
                runbook="HubbubHitterSurging",
            ),
            band(
                "Quantile $quantile",
                "The number below which this share of the numbers lies, and its interval. Only for queries of numbers.",
                units.Short,
                newest("hubbub_quantile", quantile, "query, attribute, quantile"),
                newest("hubbub_quantile_low", quantile, "query, attribute, quantile"),
                newest("hubbub_quantile_high", quantile, "query, attribute, quantile"),
                each="quantile",
                runbook="HubbubHitterSurging",
            ),
            band(
                "Range $range",
                "Share of the numbers in this range, and its interval.",
                units.PercentUnit,
                newest("hubbub_range_share", in_range, "query, attribute, range"),
                newest("hubbub_range_share_low", in_range, "query, attribute, range"),
                newest("hubbub_range_share_high", in_range, "query, attribute, range"),
                each="range",
                runbook="HubbubHitterSurging",
            ),
            graph(
                "Accuracy",
                "Share detected with probability 0.9, threshold if the query has one, standard error of a rare value.",
                units.PercentUnit,
                {
                    f"{{{{query}}}} {{{{attribute}}}} detectable {AT}": newest("hubbub_detectable_share", Q),
                    f"{{{{query}}}} {{{{attribute}}}} threshold {AT}": newest("hubbub_threshold_share", Q),
                    f"{{{{query}}}} {{{{attribute}}}} sigma {AT}": newest("hubbub_sigma_share", Q),
                },
                runbook="HubbubAccuracyLow",
            ),
            graph(
                "Reports and refusals",
                "Reports counted, left out as implausible, and refused.",
                units.CountsPerSecond,
                {
                    f"{{{{query}}}} counted {AT}": rate("hubbub_reports_total", "query", Q),
                    f"{{{{query}}}} implausible {AT}": rate("hubbub_implausible_total", "query", Q),
                    f"{{{{query}}}} {{{{reason}}}} {AT}": rate("hubbub_rejected_total", "query, reason", Q),
                },
                runbook="HubbubRejectsHigh",
            ),
            graph(
                "Quality",
                "Share of the last hour's finals with a flag.",
                units.PercentUnit,
                {f"{{{{query}}}} {{{{flag}}}} {AT}": f"hubbub:flagged:ratio1h{{{OF}, {Q}}}"},
                levels=[(0.5, AMBER)],
                runbook="HubbubPoisoningSuspected",
            ),
            graph(
                "Values that enter, leave, surge or fade",
                "Changes in 5 minutes. The values of a first window are its baseline.",
                units.Short,
                {f"{{{{query}}}} {{{{kind}}}} {{{{baseline}}}} {AT}": f"hubbub:alerts:increase5m{{{OF}, {Q}}}"},
                runbook="HubbubHitterSurging",
            ),
            graph(
                "Groups that differ",
                "Values proved in 5 minutes to differ between two groups. Each pair and value counts once.",
                units.Short,
                {f"{{{{query}}}} {AT}": f'hubbub:alerts:increase5m{{{OF}, {Q}, kind="arms"}}'},
                runbook="HubbubGroupsDiffer",
            ),
            graph(
                "Coverage",
                "Share of the newest final's intervals that hold the truth of a simulation. The promise is 0.95.",
                units.PercentUnit,
                {f"{{{{query}}}} {{{{attribute}}}} {AT}": newest("hubbub_coverage_ratio", Q)},
            ),
            graph(
                "True error",
                "Mean squared error of the newest final against the truth of a simulation, by method.",
                units.Short,
                {
                    f"{{{{query}}}} {{{{attribute}}}} {{{{method}}}} {AT}": newest(
                        "hubbub_true_mse", Q, "query, attribute, method"
                    )
                },
            ),
        ],
        marks={"Surge": changes % "surge", "Fade": changes % "fade", "Groups differ": changes % "arms"},
        several=False,
    )
