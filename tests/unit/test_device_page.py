"""The page of a device: its setting, its one file, and the server that passes its requests on."""

import asyncio
import json
import re

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from aggregator.demo import command as demo
from aggregator.demo.device import page_server, static_page
from oracles.errors import ParameterError
from oracles.query import load
from tests.queries import make_queries, make_table

QUERY = static_page.device_query(load(demo.DEVICE_QUERIES))


def queries(**settings):
    query = make_table({"domain": ["x", "y", "z"], "oracle": "grr", "budget": 1e9}, **settings)
    return make_queries({"q": query})


@pytest.mark.parametrize(
    "settings",
    [
        {"domain": 3},
        {"domain": ["a", "b"], "other": True},
        {"domain": [str(number) for number in range(13)]},
        {"oracle": "olh"},
        {"noise": "table"},
        {"oracle": "ss"},
    ],
)
def test_a_query_that_the_page_cannot_show_is_refused(settings):
    assert static_page.device_query(queries(other=False)).name == "q"
    with pytest.raises(ParameterError, match="the page of a device needs a query with 2 to 12 names"):
        static_page.device_query(queries(**{"other": False, **settings}))


def test_the_command_writes_the_page_as_one_file(tmp_path, capsys):
    file = tmp_path / "device.html"
    assert demo.main(["--device-file", str(file)]) == 0
    page = file.read_text()
    assert capsys.readouterr().out == f"page: {file}\n"
    assert not re.search(r'(src|href)="(?!data:)|^import |^export |\burl\(', page, re.MULTILINE)
    assert demo.main(["--device-file", str(tmp_path)]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_the_page_has_the_definitions_of_its_query():
    text = re.search(r'<script id="setting" type="application/json">(.*?)</script>', static_page.static_page())[1]
    definitions = {each["epsilon"]: each for each in json.loads(text)["definitions"]}
    assert list(definitions) == [0.5, 1.0, 2.0, 4.0]
    assert definitions[1.0]["digest"] == QUERY.digest.hex()
    assert definitions[1.0]["thresholds"] == QUERY.thresholds
    assert len({definition["digest"] for definition in definitions.values()}) == 4


async def answers(act):
    """Run a gateway and a board that repeat each request, and the page's server. Act with its address."""

    async def repeat(request):
        body = (await request.read()).decode()
        headers = {name: request.headers.get(name) for name in page_server.REQUEST_HEADERS}
        response = web.json_response({"path": request.path_qs, "body": body, "headers": headers}, status=202)
        response.enable_compression()
        return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", repeat)
    async with TestServer(app) as other:
        address = str(other.make_url("/"))
        async with page_server.serving_page(QUERY, address, address, 0) as page:
            await act(page, other)


def test_the_server_passes_requests_on_and_no_others():
    async def act(page, other):
        async with ClientSession() as session:
            headers = {"Idempotency-Key": "k" * 16, "Content-Type": "application/vnd.hubbub.frames"}
            async with session.post(f"{page}v1/reports", data=b"frame", headers=headers) as answer:
                assert answer.status == 202
                assert await answer.json() == {
                    "path": "/v1/reports",
                    "body": "frame",
                    "headers": dict(reversed(headers.items())),
                }
            path = f"api/v1/queries/{QUERY.name}/estimate?kind=all"
            async with session.get(page + path) as answer:
                assert (await answer.json())["path"] == f"/{path}"
            for path in ("api/v1/queries", "api/v1/queries/other/estimate", "static/device/index.html", "metrics"):
                async with session.get(page + path) as answer:
                    assert answer.status == 404, path
            async with session.get(page, headers={"Host": "evil.example"}) as answer:
                assert answer.status == 403
            async with session.get(page) as answer:
                assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
            await other.close()
            async with session.get(f"{page}v1/queries") as answer:
                assert answer.status == 503

    asyncio.run(answers(act))
