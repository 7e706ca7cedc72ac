"""Stops the workers before an upgrade, through the API of Kubernetes: workers.py NAMESPACE NAME [--keda] stop.

It scales the Deployment to 0. With --keda it pauses the ScaledObject first, which would scale the Deployment up again.
`resume` ends the pause. It needs only Python, so it runs in the image of hubbub.
"""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path(os.environ.get("SERVICE_ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
PAUSED = "autoscaling.keda.sh/paused-replicas"


def patch(path: str, change: object) -> None:
    """Change an object. If it does not exist, nothing needs to stop."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    request = urllib.request.Request(  # noqa: S310 - always https
        f"https://[{host}]:{port}{path}" if ":" in host else f"https://{host}:{port}{path}",
        data=json.dumps(change).encode(),
        method="PATCH",
        headers={
            "Authorization": f"Bearer {(ACCOUNT / 'token').read_text().strip()}",
            "Content-Type": "application/merge-patch+json",
        },
    )
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=30, context=context):  # noqa: S310 - always https
            pass
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 404:
                sys.exit(f"{path}: {error.code} {error.read().decode(errors='replace')[:500]}")


def main(arguments: list[str]) -> None:
    uses_keda = "--keda" in arguments
    namespace, name, act = (word for word in arguments if word != "--keda")
    if uses_keda:
        path = f"/apis/keda.sh/v1alpha1/namespaces/{namespace}/scaledobjects/{name}"
        patch(path, {"metadata": {"annotations": {PAUSED: "0" if act == "stop" else None}}})
    if act == "stop":
        patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale", {"spec": {"replicas": 0}})
        print(f"scaled deployment {name} in {namespace} to 0")  # noqa: T201 - a command prints


if __name__ == "__main__":
    main(sys.argv[1:])
