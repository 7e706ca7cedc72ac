"""The dashboards of Grafana: `python deploy/grafana/dashboards.py` writes them as JSON beside this file."""

import json
from pathlib import Path

import machinery
import results
from grafana_foundation_sdk.cog.encoder import JSONEncoder

FOLDER = Path(__file__).parent


def rendered() -> dict[str, str]:
    """The JSON that Grafana is provisioned with, by the file's name."""
    found = {}
    for made in (results.overview(), results.query(), machinery.gateway(), machinery.workers()):
        model = json.loads(json.dumps(made.build(), cls=JSONEncoder))
        for number, panel in enumerate(model["panels"], 1):
            panel["id"] = number
        for annotation in model["annotations"]["list"]:  # what the builder has no words for
            annotation |= {"titleFormat": "{{alertname}}", "textFormat": "{{query}} {{instance}}", "step": "30s"}
        text = json.dumps(model, indent=1, sort_keys=True, ensure_ascii=False)
        found[f"{model['uid'].removeprefix('hubbub-')}.json"] = f"{text}\n"
    return found


if __name__ == "__main__":
    for name, text in rendered().items():
        (FOLDER / name).write_text(text)
