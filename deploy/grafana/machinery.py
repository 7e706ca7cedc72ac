"""The dashboards about processes: gateways, workers, sinks and Kafka."""

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import units
from panels import AMBER, AT, OF, RED, board, graph, newest, quantile, rate, rows, variable

INSTANCES = variable(
    "instance", "Instance", f'label_values(hubbub_build_info{{{OF}, job=~"hubbub-(worker|board)"}}, instance)'
)
GATEWAYS = variable("instance", "Instance", f'label_values(hubbub_build_info{{{OF}, job="hubbub-gateway"}}, instance)')
I = 'instance=~"$instance"'
"""Selector of the variable `instance`."""


def gateway() -> dashboard.Dashboard:
    return board(
        "gateway",
        "Gateway",
        "Requests over HTTP, their answers and their times.",
        'alertname=~"Hubbub(NoGateway|Gateway.*|Quota.*|Process.*)"',
        [GATEWAYS],
        [
            graph(
                "Requests",
                "Requests answered, by status.",
                units.RequestsPerSecond,
                {"{{route}} {{status}}": rate("hubbub_gateway_requests_total", "route, status", I)},
            ),
            graph(
                "Errors",
                "Share of the requests that failed because of the gateway or Kafka (5xx).",
                units.PercentUnit,
                {f"5xx {AT}": f"hubbub:gateway_errors:ratio5m{{{OF}}}"},
                levels=[(0.01, RED)],
                runbook="HubbubGatewayErrors",
            ),
            graph(
                "Time to acknowledge",
                "Time from a complete request body to its 202 answer, including Kafka's time.",
                units.Seconds,
                {
                    f"p50 {AT}": quantile(0.5, "hubbub_gateway_seconds", I),
                    f"p99 {AT}": quantile(0.99, "hubbub_gateway_seconds", I),
                },
                levels=[(2, RED)],
                runbook="HubbubGatewaySlow",
            ),
            graph(
                "Reports",
                "Reports acknowledged, by query, with and without a key.",
                units.CountsPerSecond,
                {"{{query}} keyed: {{keyed}}": rate("hubbub_gateway_reports_total", "query, keyed", I)},
            ),
            graph(
                "Refused",
                "Requests refused, by reason.",
                units.RequestsPerSecond,
                {"{{reason}}": rate("hubbub_gateway_refused_total", "reason", I)},
                runbook="HubbubQuotaExhausted",
            ),
            graph(
                "Memory",
                "Resident memory.",
                units.BytesIEC,
                {"{{instance}}": f'process_resident_memory_bytes{{job="hubbub-gateway", {I}, {OF}}}'},
            ),
        ],
    )


def workers() -> dashboard.Dashboard:
    both = f'job=~"hubbub-(worker|board)", {I}'
    return board(
        "workers",
        "Kafka and workers",
        "Reading of the log, state of the workers, and its cost.",
        'alertname=~"Hubbub.*", severity!="info"',
        [INSTANCES],
        [
            graph(
                "Records not read",
                "Records not read yet, by partition.",
                units.Short,
                {f"{{{{partition}}}} {AT}": f"hubbub:lag_records:max{{{OF}}}"},
                levels=[(1000, AMBER)],
                runbook="HubbubLagGrowing",
            ),
            graph(
                "Clock ahead",
                "Newest timestamp of the log minus the brokers' time, by partition. A broker's clock may be wrong.",
                units.Seconds,
                {f"{{{{partition}}}} {AT}": newest("hubbub_clock_ahead_seconds", "", "partition")},
                levels=[(2, RED)],
                runbook="HubbubClockAhead",
            ),
            graph(
                "Checkpoints",
                "Time from the first write to the last acknowledgement.",
                units.Seconds,
                {
                    "{{instance}} mean": f"hubbub:checkpoint:mean5m{{{OF}, {I}}}",
                    f"p90 {AT}": quantile(0.9, "hubbub_checkpoint_seconds", I),
                },
                levels=[(5, RED)],
                runbook="HubbubCheckpointsFailing",
            ),
            graph(
                "Unacknowledged",
                "Age of the oldest write that Kafka has not acknowledged. Above 15 s a worker is not ready.",
                units.Seconds,
                {"{{instance}}": f"max by (namespace, release, instance) (hubbub_unacknowledged_seconds{{{OF}, {I}}})"},
                levels=[(15, RED)],
                runbook="HubbubWritesWaiting",
            ),
            graph(
                "Written to Kafka",
                "Bytes of tallies and snapshots.",
                units.BytesPerSecondIEC,
                {"{{instance}}": rate("hubbub_checkpoint_bytes_total", "instance", I)},
            ),
            graph(
                "Recoveries",
                "Time from the assignment of partitions to the end of their recovery, mean of half an hour.",
                units.Seconds,
                {"{{instance}}": f"hubbub:recovery:mean30m{{{OF}, {I}}}"},
                levels=[(60, AMBER)],
                runbook="HubbubRecoverySlow",
            ),
            graph(
                "From close to record",
                "Time from the close of a window's last pane to its final record, and age of the oldest waiting one.",
                units.Seconds,
                {
                    f"p90 {AT}": f"hubbub:close_to_record:p90_5m{{{OF}}}",
                    f"waiting {AT}": f"max by (namespace, release) (hubbub_publish_lag_seconds{{{OF}}})",
                },
                levels=[(60, RED)],
                runbook="HubbubPublishingBehind",
            ),
            graph(
                "State",
                "Tallies of open panes, and the largest size that `hubbub check` predicts for the worker's partitions.",
                units.BytesIEC,
                {
                    "{{instance}}": f"hubbub_tally_bytes{{{OF}, {I}}}",
                    "{{instance}} at most": f"hubbub_predicted_tally_bytes{{{OF}, {I}}}",
                },
            ),
            graph(
                "Memory",
                "Resident memory, and the prediction of `hubbub check` for the tallies alone.",
                units.BytesIEC,
                {
                    "{{instance}}": f"process_resident_memory_bytes{{{OF}, {both}}}",
                    "{{instance}} tallies, at most": f"hubbub_predicted_tally_bytes{{{OF}, {I}}}",
                },
            ),
            graph(
                "CPU",
                "Busy cores.",
                units.Short,
                {"{{instance}}": rate("process_cpu_seconds_total", "instance", both)},
            ),
            graph(
                "Records published",
                "Final and provisional records.",
                units.RecordsPerSecond,
                {"{{instance}} final: {{final}}": rate("hubbub_records_total", "instance, final", I)},
            ),
            graph(
                "Starts",
                "Starts in half an hour.",
                units.Short,
                {"{{instance}}": f"changes(process_start_time_seconds{{{OF}, {both}}}[30m])"},
                levels=[(3, RED)],
                runbook="HubbubProcessRestarting",
            ),
            graph(
                "Files behind",
                "Age of the oldest final that is in no file of a sink yet, and the limit of its alert.",
                units.Seconds,
                {
                    "{{instance}}": newest("hubbub_sink_lag_seconds", "", "instance"),
                    "{{instance}} limit": newest("hubbub_sink_lag_limit_seconds", "", "instance"),
                },
                runbook="HubbubSinkBehind",
            ),
            rows(
                "Versions",
                "Version and kernels of each process.",
                units.NoUnit,
                {"": newest("hubbub_build_info", I, "job, instance, version, kernels")},
                labels=["job", "instance", "version", "kernels"],
            ),
        ],
    )
