"""The dashboards about results: their age, their accuracy and their values."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import units
from panels import AMBER, RED, bars, board, figure, graph, newest, rate, rows, variable

QUERIES = variable("query", "Query", "label_values(hubbub_reports_total, query)")
Q = 'query=~"$query"'
"""Selector of the variable `query`."""


def overview() -> dashboard.Dashboard:
    machinery = 'alertname=~"Hubbub.*", severity!="info"'
    late = "hubbub:newest_final_age:seconds > bool on (query) hubbub:expected_final_age:seconds"
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
                'count(up{job="hubbub-worker"} == 1) or vector(0)',
                runbook="HubbubNoWorker",
            ),
            figure(
                "Alerts",
                "Firing alerts, without those about the crowd.",
                units.Short,
                f'count(ALERTS{{alertstate="firing", {machinery}}}) or vector(0)',
                levels=[(1, RED)],
            ),
            figure(
                "Late queries",
                "Queries whose newest final is older than their windows allow.",
                units.Short,
                f"sum({late})",
                levels=[(1, RED)],
                runbook="HubbubFinalsStale",
            ),
            figure(
                "Lost records",
                "Records that Kafka deleted in the last day before a worker read them.",
                units.Short,
                "sum(increase(hubbub_lost_records_total[1d]))",
                levels=[(1, RED)],
                runbook="HubbubRecordsLost",
            ),
            graph(
                "Age of the newest final",
                "It grows until the next window is final. The second line is the largest age that the windows allow.",
                units.Seconds,
                {
                    "{{query}}": f"hubbub:newest_final_age:seconds{{{Q}}}",
                    "{{query}}: at most": f"hubbub:expected_final_age:seconds{{{Q}}}",
                },
                runbook="HubbubFinalsStale",
            ),
            graph(
                "Reports",
                "Reports counted, by query.",
                units.CountsPerSecond,
                {"{{query}}": rate("hubbub_reports_total", "query", Q)},
            ),
            graph(
                "Lag",
                "Delay of reading and of publishing.",
                units.Seconds,
                {"reading": "max(hubbub_lag_seconds)", "publishing": "max(hubbub_publish_lag_seconds)"},
                levels=[(60, RED)],
                runbook="HubbubReadingBehind",
            ),
            graph(
                "Refused",
                "Share of the reports that are refused, by reason. Series without a query are of unknown queries.",
                units.PercentUnit,
                {"{{query}} {{reason}}": 'hubbub:rejected:ratio15m{query=~"$query|"}'},
                levels=[(0.01, AMBER)],
                runbook="HubbubRejectsHigh",
            ),
            graph(
                "Values that enter, leave or surge",
                "Changes in 5 minutes, without those of first windows.",
                units.Short,
                {"{{query}} {{kind}}": f'hubbub:alerts:increase5m{{{Q}, baseline="false"}}'},
                runbook="HubbubHitterEntered",
            ),
            graph(
                "Flags",
                "Share of the last hour's finals with a quality flag.",
                units.PercentUnit,
                {"{{query}} {{flag}}": f"hubbub:flagged:ratio1h{{{Q}}}"},
                levels=[(0.5, AMBER)],
                runbook="HubbubPoisoningSuspected",
            ),
        ],
    )


def query() -> dashboard.Dashboard:
    value = "query, attribute, value"
    return board(
        "query",
        "Query",
        "Results of a query, and how sure they are.",
        f'alertname=~"Hubbub.*", {Q}',
        [QUERIES],
        [
            rows(
                "Top values",
                "Unbiased shares with their 95% intervals in the newest final of the shortest window.",
                units.PercentUnit,
                {
                    "share": newest("hubbub_top_share", Q, value),
                    "low": newest("hubbub_top_share_low", Q, value),
                    "high": newest("hubbub_top_share_high", Q, value),
                },
                labels=["query", "attribute", "value"],
            ),
            bars(
                "Heavy hitters",
                "Unbiased shares of the values that are proved frequent in the newest final of the shortest window.",
                units.PercentUnit,
                {"{{query}} {{attribute}} {{value}}": newest("hubbub_hitter_share", Q, value)},
                runbook="HubbubHitterEntered",
            ),
            graph(
                "Top values over time",
                "Unbiased shares. A line ends when its value is no longer among the first.",
                units.PercentUnit,
                {"{{query}} {{attribute}} {{value}}": newest("hubbub_top_share", Q, value)},
                runbook="HubbubHitterSurging",
            ),
            graph(
                "Accuracy",
                "Share detected with probability 0.9, threshold if the query has one, standard error of a rare value.",
                units.PercentUnit,
                {
                    "{{query}} {{attribute}} detectable": newest("hubbub_detectable_share", Q),
                    "{{query}} {{attribute}} threshold": newest("hubbub_threshold_share", Q),
                    "{{query}} {{attribute}} sigma": newest("hubbub_sigma_share", Q),
                },
                runbook="HubbubAccuracyLow",
            ),
            graph(
                "Reports and refusals",
                "Reports counted, left out as implausible, and refused.",
                units.CountsPerSecond,
                {
                    "{{query}} counted": rate("hubbub_reports_total", "query", Q),
                    "{{query}} implausible": rate("hubbub_implausible_total", "query", Q),
                    "{{query}} {{reason}}": rate("hubbub_rejected_total", "query, reason", Q),
                },
                runbook="HubbubRejectsHigh",
            ),
            graph(
                "Quality",
                "Share of the last hour's finals with a flag.",
                units.PercentUnit,
                {"{{query}} {{flag}}": f"hubbub:flagged:ratio1h{{{Q}}}"},
                levels=[(0.5, AMBER)],
                runbook="HubbubPoisoningSuspected",
            ),
            graph(
                "Values that enter, leave or surge",
                "Changes in 5 minutes. The values of a first window are its baseline.",
                units.Short,
                {"{{query}} {{kind}}, baseline: {{baseline}}": f"hubbub:alerts:increase5m{{{Q}}}"},
                runbook="HubbubHitterSurging",
            ),
            graph(
                "Coverage",
                "Share of the newest final's intervals that hold the truth of a simulation. The promise is 0.95.",
                units.PercentUnit,
                {"{{query}} {{attribute}}": newest("hubbub_coverage_ratio", Q)},
            ),
            graph(
                "True error",
                "Mean squared error of the newest final against the truth of a simulation, by method.",
                units.Short,
                {"{{query}} {{attribute}} {{method}}": newest("hubbub_true_mse", Q, "query, attribute, method")},
            ),
        ],
    )
