"""The dashboards about what is published: whether it is fresh, and what it says."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import units
from panels import AMBER, RED, bars, board, figure, graph, newest, rate, rows, variable

QUERIES = variable("query", "Query", "label_values(hubbub_reports_total, query)")
Q = 'query=~"$query"'
"""What the variable chooses."""


def overview() -> dashboard.Dashboard:
    machinery = 'alertname=~"Hubbub.*", severity!="info"'
    late = "hubbub:newest_final_age:seconds > bool on (query) hubbub:expected_final_age:seconds"
    return board(
        "overview",
        "Overview",
        "Does it run, is it fresh, how much comes, and how much of it is refused?",
        machinery,
        [QUERIES],
        [
            figure(
                "Workers",
                "Those that answer.",
                units.Short,
                'count(up{job="hubbub-worker"} == 1) or vector(0)',
                runbook="HubbubNoWorker",
            ),
            figure(
                "Alerts",
                "Those that fire; what the crowd does is not among them.",
                units.Short,
                f'count(ALERTS{{alertstate="firing", {machinery}}}) or vector(0)',
                levels=[(1, RED)],
            ),
            figure(
                "Late queries",
                "Their newest final is older than their windows allow.",
                units.Short,
                f"sum({late})",
                levels=[(1, RED)],
                runbook="HubbubFinalsStale",
            ),
            figure(
                "Lost records",
                "In a day: records that Kafka deleted before they were read.",
                units.Short,
                "sum(increase(hubbub_lost_records_total[1d]))",
                levels=[(1, RED)],
                runbook="HubbubRecordsLost",
            ),
            graph(
                "Age of the newest final",
                "It grows until the next window is final; beside it, what the windows allow.",
                units.Seconds,
                {
                    "{{query}}": f"hubbub:newest_final_age:seconds{{{Q}}}",
                    "{{query}}: at most": f"hubbub:expected_final_age:seconds{{{Q}}}",
                },
                runbook="HubbubFinalsStale",
            ),
            graph(
                "Reports",
                "Counted, by query.",
                units.CountsPerSecond,
                {"{{query}}": rate("hubbub_reports_total", "query", Q)},
            ),
            graph(
                "Lag",
                "How far reading is behind, and how far publishing is.",
                units.Seconds,
                {"reading": "max(hubbub_lag_seconds)", "publishing": "max(hubbub_publish_lag_seconds)"},
                levels=[(60, RED)],
                runbook="HubbubReadingBehind",
            ),
            graph(
                "Refused",
                "The share of the reports that are refused, by reason; those without a query name none that is known.",
                units.PercentUnit,
                {"{{query}} {{reason}}": 'hubbub:rejected:ratio15m{query=~"$query|"}'},
                levels=[(0.01, AMBER)],
                runbook="HubbubRejectsHigh",
            ),
            graph(
                "Values that enter, leave or surge",
                "In 5 minutes, without those of first windows.",
                units.Short,
                {"{{query}} {{kind}}": f'hubbub:alerts:increase5m{{{Q}, baseline="false"}}'},
                runbook="HubbubHitterEntered",
            ),
            graph(
                "Flags",
                "Finals of the last hour that carry a flag of quality.",
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
        "What a query says now, and how sure that is.",
        f'alertname=~"Hubbub.*", {Q}',
        [QUERIES],
        [
            rows(
                "Top values",
                "In the newest final of the shortest window: the unbiased share with its 95% interval.",
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
                "Values that are proved to be frequent in that window, with their unbiased share.",
                units.PercentUnit,
                {"{{query}} {{attribute}} {{value}}": newest("hubbub_hitter_share", Q, value)},
                runbook="HubbubHitterEntered",
            ),
            graph(
                "Top values over time",
                "Unbiased shares; a line ends where its value is no longer among the first.",
                units.PercentUnit,
                {"{{query}} {{attribute}} {{value}}": newest("hubbub_top_share", Q, value)},
                runbook="HubbubHitterSurging",
            ),
            graph(
                "Accuracy",
                "The share that is found with probability 0.9, the threshold where there is one, and the standard "
                "error of a rare value.",
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
                "Counted, left out as implausible, and refused.",
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
                "Finals of the last hour that carry a flag.",
                units.PercentUnit,
                {"{{query}} {{flag}}": f"hubbub:flagged:ratio1h{{{Q}}}"},
                levels=[(0.5, AMBER)],
                runbook="HubbubPoisoningSuspected",
            ),
            graph(
                "Values that enter, leave or surge",
                "In 5 minutes; a baseline is what a first window shows.",
                units.Short,
                {"{{query}} {{kind}}, baseline: {{baseline}}": f"hubbub:alerts:increase5m{{{Q}}}"},
                runbook="HubbubHitterSurging",
            ),
            graph(
                "Coverage",
                "Where a simulation tells the truth: the intervals of the newest final that hold it. 0.95 is promised.",
                units.PercentUnit,
                {"{{query}} {{attribute}}": newest("hubbub_coverage_ratio", Q)},
            ),
            graph(
                "True error",
                "Where a simulation tells the truth: the mean squared error of the newest final, by method.",
                units.Short,
                {"{{query}} {{attribute}} {{method}}": newest("hubbub_true_mse", Q, "query, attribute, method")},
            ),
        ],
    )
