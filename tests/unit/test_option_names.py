"""Each option has one meaning in all commands, and each meaning has one option. Old names work, with a warning."""

import argparse
import re
import runpy
from pathlib import Path

import pytest

from aggregator.plan import command as plan
from aggregator.plan import probe
from hubbub.__main__ import COMMANDS, main
from tests.queries import make_text

_PAGE = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "options.py"))
PARSER_OF = _PAGE["parser_of"]

MEANINGS = {
    "DIR": "folder of the (lists|page)",
    "FILE": "query file|CSV file|list to sign",
    "FILE|NAME": "query file, .* and the name of the only query",
    "NAME": "part of the name of metrics|name of the query",
    "QUERY": "name of the query",
    "STEP": "what to do",
    "--all": "all queries",
    "--all-groups": "the total and each group",
    "--application": "name of the application",
    "--alone": "accept a store without conditional writes",
    "--change": "answer to the question: once, life or hr",
    "--people": "answer to the question: people and time",
    "--sensitivity": "answer to the question: little, normal or very",
    "--trial": "results after 10 seconds",
    "--answers": "how a client repeats its answers",
    "--asked": "folder of the lists",
    "--ask": "share of this string",
    "--bins": "number of bins",
    "--broker-rate": "bytes per second that a broker receives",
    "--budget": "epsilon of all answers of a client",
    "--cells": "logarithm of the number of cells",
    "--checkpoint-bytes-per-s": "maximum bytes of checkpoints",
    "--churn": "share of the clients that draw a new value",
    "--clients": "(number of )?clients",
    "--column": "column of the value",
    "--confidence": "confidence of the bound",
    "--connections": "limit of open connections",
    "--connections-each": "limit of open connections of one address",
    "--drop": "query whose former document is not kept",
    "--digest": "print the digest too",
    "--device": "show a page on which you are a device",
    "--device-file": "write this page to a file",
    "--dry-run": "print the changes, and make none",
    "--embedded": "use the embedded broker",
    "--epsilon": "privacy of each report",
    "--every": "longest time from a final to its row",
    "--exec": "the client, with its arguments",
    "--expires": "end of the list",
    "--facts": "print the facts for an impact assessment",
    "--family-error": "probability that any value is significant by mistake",
    "--files": "period of a file",
    "--fill": "busy share of each core",
    "--for": "lifetime of a short-lived token",
    "--format": "format of the output",
    "--frame": "(maximum )?reports (per|in a) frame",
    "--from": "(earliest end|start of the range).*a date, a time .* or Unix seconds",
    "--gateway": "address of a gateway that lists the query",
    "--group": "only this group",
    "--group-values": "distribution of the clients of one group",
    "--groups": "shares of the clients in groups|answer to the question: groups",
    "--health-port": "port of /healthz, /readyz and /metrics, in plain HTTP",
    "--host": "host of ",
    "--instance": "name of this worker in its group",
    "--json": "(with --arms, )?(write )?one line of JSON for each",
    "--kafka": "brokers of Kafka|address of a real Kafka",
    "--each": "limit of reports a pane for each short-lived token",
    "--keep": "delete the files of days",
    "--key": "make a key that signs|file of your private key",
    "--keys": "public keys",
    "--kind": "only windows of this kind|kind of answers",
    "--long": "print promises, errors and costs of all queries",
    "--last": "number of (existing records|frames to show)",
    "--least": "least number of reports in a mix buffer",
    "--leave": "give the name up at SIGTERM",
    "--linger": "milliseconds that reports without a key wait",
    "--log": "format of the log",
    "--log-level": "least level of the log",
    "--max-body": "largest body",
    "--max-frame": "maximum size of a frame",
    "--max-state": "maximum memory of a worker's tallies",
    "--memory": "memory for windows and true counts",
    "--name": "name of the token or key|answer to the question: short name of the query",
    "--no-browser": "do not open the page",
    "--no-ids": "plan for frames without ids",
    "--number": "plan for answers that are numbers",
    "--once": "write what the topic holds now",
    "--origins": "origins of web pages",
    "--output": "file to write",
    "--partition-rate": "bytes per second of the reports of one partition",
    "--partitions": "(minimum )?number of partitions",
    "--periods": "number of answers of a device",
    "--port": "port of (the|/metrics)",
    "--prefix": "prefix of the (names of )?topics|prefix of the names of topics",
    "--previous": "list before",
    "--provisional": "include provisional records",
    "--queries": "query file",
    "--query": "(name of the )?query (to answer|of unknown strings|that the client answers)|name of the query",
    "--raise-formats": "raise the formats version",
    "--lower-formats": "return to the formats version",
    "--fence": "shut out workers of older releases",
    "--notes": "file of notes|notes of each client in a period",
    "--quota": "limit of reports a pane, over all tokens",
    "--rate": "(limit of requests|reports|answers) (a|per) second",
    "--reason": "only frames with this reason|the reason,",
    "--replication": "number of copies of each partition",
    "--reports": "number of reports",
    "--retention": "how long to keep windows|time for which Kafka keeps",
    "--retire": "query to retire",
    "--scenario": "changes over time",
    "--seconds": "length of the run|seconds until the demo ends",
    "--seed": "seed ",
    "--settle": "time after the end of a file's period",
    "--sign": "make a short-lived token",
    "--size": "number of values",
    "--speed": "speed of a core",
    "--sink": "target of a sink",
    "--spool": "folder of the waiting rows",
    "--start": "start of a virtual clock",
    "--stop-hint": "how people stop all workers",
    "--stop-workers": "command that stops all workers",
    "--strict": "exit with 0 only if topics and formats need nothing",
    "--strings": "plan for unknown strings",
    "--table": "sizes of two attributes",
    "--target-share": "print the clients, or the epsilon, that make this share detectable",
    "--threshold": "keys that must sign",
    "--tls-cert": "PEM file of the certificate",
    "--tls-key": "PEM file of the certificate's key",
    "--to": "upper limit of the end|end of the range|folder of the files",
    "--tokens": "file (with names, hashes and quotas of tokens|of tokens that see named queries)",
    "--top": "maximum number of values",
    "--topic": "compare the file with the active queries",
    "--truth": "publish the true counts",
    "--trusted-proxies": "networks of proxies",
    "--upgrade-patience": "seconds to wait for the formats version",
    "--url": "address of the process",
    "--arms": "plan an experiment of so many arms",
    "--delta": "with --arms, the difference of a share",
    "--values": (
        "distribution of the clients' values|with --arms, the number of values|answer to the question: names of values"
    ),
    "--width": "print the clients for an interval",
    "--window": "kind of window",
    "--work": "limit of decoding work",
    "--yes": "take the defaults and ask nothing",
}
"""The meaning of each option, as a pattern that its help matches in every command."""
PAIRS = {
    ("--connections", "--connections-each"): "of all addresses, and of each",
    ("--tls-cert", "--tls-key"): "the certificate, and its key",
}
"""Options whose help matches the meaning of another one, with the difference."""


def options():
    """Yield each command, and the name, the placeholder and the help of each of its options."""
    for command in (*COMMANDS, *_PAGE["STEPS"]):
        for action in PARSER_OF(command)._actions:
            if action.help != argparse.SUPPRESS and "--help" not in action.option_strings:
                names = action.option_strings or [action.metavar or action.dest]
                assert len(names) == 1, (command, names)
                yield command, names[0], action.metavar, " ".join(str(action.help).split())


OPTIONS = list(options())


def test_every_option_has_a_meaning_and_no_meaning_is_left_over():
    assert {name for _, name, _, _ in OPTIONS} == MEANINGS.keys()


@pytest.mark.parametrize(("command", "name", "text"), [(command, name, text) for command, name, _, text in OPTIONS])
def test_a_name_has_one_meaning(command, name, text):
    assert re.search(MEANINGS[name], text), f"hubbub {command} {name} means something else: {text}"


def test_a_meaning_has_one_name():
    pairs = {
        tuple(sorted((name, other)))
        for _, name, _, text in OPTIONS
        for other, meaning in MEANINGS.items()
        if name != other and {name[:2], other[:2]} == {"--"} and re.match(meaning, text)
    }
    assert sorted(pairs) == sorted(PAIRS)


@pytest.mark.parametrize("name", sorted({name for _, name, _, _ in OPTIONS}))
def test_a_name_has_one_placeholder(name):
    # A plan takes several rates at a time and a number of values, `init` takes groups without shares, and a sink
    # writes to a place.
    placeholders = {place for _, other, place, _ in OPTIONS if other == name} - {"N[,N...]", "G:V,V,..."}
    if name == "--to":
        placeholders.remove("PLACE")
    elif name == "--values":
        placeholders.remove("V")
    elif name == "--notes":
        # Notes of a board are in a file, and those of a simulated device have a law.
        placeholders.remove("SPEC")
    elif name == "--key":
        # A key of a gateway is made, and that of a person is a file.
        placeholders.remove("PEM")
    assert len(placeholders) == 1


@pytest.mark.parametrize(
    ("read", "old", "new"),
    [
        (plan._options, ["--rate", "1", "--per-frame", "7"], ["--rate", "1", "--frame", "7"]),
        (plan._options, ["--rate", "1", "--replicas", "2"], ["--rate", "1", "--replication", "2"]),
        (
            probe._options,
            ["--query", "a.toml", "--name", "q", "--exec", "x"],
            ["--queries", "a.toml", "--query", "q", "--exec", "x"],
        ),
    ],
)
def test_an_old_name_works_with_a_warning(read, old, new, capsys):
    former = vars(read(old))
    warning = capsys.readouterr().err
    assert "The old name ends with version 0.4." in warning
    assert warning.count("\n") == 1
    present = vars(read(new))
    assert capsys.readouterr().err == ""
    assert {**former, "name": None} == {**present, "name": None}


def test_the_old_name_of_the_listed_query_works_with_a_warning(tmp_path, capsys):
    path = tmp_path / "hubbub.toml"
    path.touch()
    assert main(["init", "--from", "crashes", "--queries", str(path)]) == 2
    warning, refusal = capsys.readouterr().err.splitlines()
    assert warning.startswith("hubbub init: --from has the name --query now.")
    assert "exists" in refusal


def test_a_probe_takes_the_only_query_of_a_file(tmp_path, capsys):
    path = tmp_path / "hubbub.toml"
    path.write_text(make_text("q", domain=4, oracle="grr", noise="each"))
    assert main(["probe", "--queries", str(path), "--exec", "/none"]) == 2
    assert capsys.readouterr().err == "hubbub probe: --exec /none: No such file or directory\n"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_wrong_value_is_refused_with_the_form_of_a_right_one(command):
    parser = PARSER_OF(command)
    messages = []
    for action in parser._actions:
        if action.type is None:
            continue
        try:
            parser._get_value(action, "\N{SECTION SIGN}")
        except argparse.ArgumentError as error:
            messages.append(str(error))

    # The words of argparse itself name a type of Python, such as "float".
    assert [message for message in messages if "invalid" in message] == []
    assert all(re.search("must be|may have", message) for message in messages)


def test_a_churn_of_nothing_is_a_number_too(capsys):
    parser = PARSER_OF("simulate")
    assert parser.parse_args(["--churn", "0"]).churn == 0.0
    with pytest.raises(SystemExit):
        parser.parse_args(["--churn", "2"])
    assert "must be a share above 0 and below 1, got '2', or 0 for none" in capsys.readouterr().err
