"""The dashboards about what runs: gateways, and workers beside Kafka."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import units
from panels import AMBER, RED, board, graph, newest, quantile, rate, rows, variable

INSTANCES = variable("instance", "Instance", 'label_values(hubbub_build_info{job=~"hubbub-(worker|board)"}, instance)')
GATEWAYS = variable("instance", "Instance", 'label_values(hubbub_build_info{job="hubbub-gateway"}, instance)')
I = 'instance=~"$instance"'
"""What the variable chooses."""


def gateway() -> dashboard.Dashboard:
    return board(
        "gateway",
        "Gateway",
        "What comes over HTTP, how it is answered, and how fast.",
        'alertname=~"Hubbub(NoGateway|Gateway.*|Quota.*|Process.*)"',
        [GATEWAYS],
        [
            graph(
                "Requests",
                "Answered, by status.",
                units.RequestsPerSecond,
                {"{{route}} {{status}}": rate("hubbub_gateway_requests_total", "route, status", I)},
            ),
            graph(
                "Errors",
                "Requests that failed for a reason of the gateway's or Kafka's own (5xx).",
                units.PercentUnit,
                {"5xx": "hubbub:gateway_errors:ratio5m"},
                levels=[(0.01, RED)],
                runbook="HubbubGatewayErrors",
            ),
            graph(
                "Time to acknowledge",
                "From a request's body to its 202, with all that Kafka takes.",
                units.Seconds,
                {
                    "p50": quantile(0.5, "hubbub_gateway_seconds", I),
                    "p99": quantile(0.99, "hubbub_gateway_seconds", I),
                },
                levels=[(2, RED)],
                runbook="HubbubGatewaySlow",
            ),
            graph(
                "Reports",
                "Acknowledged, by query, with and without a key.",
                units.CountsPerSecond,
                {"{{query}} keyed: {{keyed}}": rate("hubbub_gateway_reports_total", "query, keyed", I)},
            ),
            graph(
                "Refused",
                "Requests, by reason.",
                units.RequestsPerSecond,
                {"{{reason}}": rate("hubbub_gateway_refused_total", "reason", I)},
                runbook="HubbubQuotaExhausted",
            ),
            graph(
                "Memory",
                "Resident.",
                units.BytesIEC,
                {"{{instance}}": f'process_resident_memory_bytes{{job="hubbub-gateway", {I}}}'},
            ),
        ],
    )


def workers() -> dashboard.Dashboard:
    both = f'job=~"hubbub-(worker|board)", {I}'
    return board(
        "workers",
        "Kafka and workers",
        "How the log is read, what is kept, and what it costs.",
        'alertname=~"Hubbub.*", severity!="info"',
        [INSTANCES],
        [
            graph(
                "Records not read",
                "By partition.",
                units.Short,
                {"{{partition}}": "hubbub:lag_records:max"},
                levels=[(1000, AMBER)],
                runbook="HubbubLagGrowing",
            ),
            graph(
                "Clock ahead",
                "The log's newest timestamp less the time, by partition: a broker whose clock is wrong shows here.",
                units.Seconds,
                {"{{partition}}": "max by (partition) (hubbub_clock_ahead_seconds)"},
                levels=[(2, RED)],
                runbook="HubbubClockAhead",
            ),
            graph(
                "Checkpoints",
                "From the first write to the last acknowledgement.",
                units.Seconds,
                {
                    "{{instance}} mean": f"hubbub:checkpoint:mean5m{{{I}}}",
                    "p90": quantile(0.9, "hubbub_checkpoint_seconds", I),
                },
                levels=[(5, RED)],
                runbook="HubbubCheckpointsFailing",
            ),
            graph(
                "Written to Kafka",
                "Tallies and snapshots.",
                units.BytesPerSecondIEC,
                {"{{instance}}": rate("hubbub_checkpoint_bytes_total", "instance", I)},
            ),
            graph(
                "Recoveries",
                "From being given partitions until they are counted, in the mean of half an hour.",
                units.Seconds,
                {"{{instance}}": f"hubbub:recovery:mean30m{{{I}}}"},
                levels=[(60, AMBER)],
                runbook="HubbubRecoverySlow",
            ),
            graph(
                "From close to record",
                "From the closing of a window's last pane to its final record; and the oldest that waits.",
                units.Seconds,
                {"p90": "hubbub:close_to_record:p90_5m", "waiting": "max(hubbub_publish_lag_seconds)"},
                levels=[(60, RED)],
                runbook="HubbubPublishingBehind",
            ),
            graph(
                "State",
                "Tallies of open panes, and the most that `hubbub check` predicts for the partitions of this worker.",
                units.BytesIEC,
                {
                    "{{instance}}": f"hubbub_tally_bytes{{{I}}}",
                    "{{instance}} at most": f"hubbub_predicted_tally_bytes{{{I}}}",
                },
            ),
            graph(
                "Memory",
                "Resident, beside what `hubbub check` predicts for tallies alone.",
                units.BytesIEC,
                {
                    "{{instance}}": f"process_resident_memory_bytes{{{both}}}",
                    "{{instance}} tallies, at most": f"hubbub_predicted_tally_bytes{{{I}}}",
                },
            ),
            graph(
                "CPU",
                "Cores.",
                units.Short,
                {"{{instance}}": rate("process_cpu_seconds_total", "instance", both)},
            ),
            graph(
                "Records published",
                "Final ones and provisional ones.",
                units.RecordsPerSecond,
                {"{{instance}} final: {{final}}": rate("hubbub_records_total", "instance, final", I)},
            ),
            graph(
                "Starts",
                "In half an hour.",
                units.Short,
                {"{{instance}}": f"changes(process_start_time_seconds{{{both}}}[30m])"},
                levels=[(3, RED)],
                runbook="HubbubProcessRestarting",
            ),
            rows(
                "Versions",
                "What runs where.",
                units.NoUnit,
                {"": newest("hubbub_build_info", I, "job, instance, version, kernels")},
                labels=["job", "instance", "version", "kernels"],
            ),
        ],
    )
