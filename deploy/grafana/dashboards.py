"""Grafana dashboards. `python deploy/grafana/dashboards.py` writes them as JSON into this folder."""

import json
from pathlib import Path

import machinery
import results
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from panels import AT

FOLDER = Path(__file__).parent


def rendered() -> dict[str, str]:
    """Return the JSON of each dashboard by its file name."""
    texts = {}
    for builder in (results.overview(), results.query(), machinery.gateway(), machinery.workers()):
        model = json.loads(json.dumps(builder.build(), cls=JSONEncoder))
        for number, panel in enumerate(model["panels"], 1):
            panel["id"] = number
        for annotation in model["annotations"]["list"]:  # the builder has no methods for these
            title = "{{alertname}}" if annotation["expr"].startswith("ALERTS") else annotation["name"]
            annotation |= {"titleFormat": title, "textFormat": f"{AT} {{{{query}}}} {{{{instance}}}}", "step": "30s"}
        text = json.dumps(model, indent=1, sort_keys=True, ensure_ascii=False)
        texts[f"{model['uid'].removeprefix('hubbub-')}.json"] = f"{text}\n"
    return texts


if __name__ == "__main__":
    for name, text in rendered().items():
        (FOLDER / name).write_text(text)
