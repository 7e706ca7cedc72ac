#!/usr/bin/env bash
# kubernetes.sh FOLDER crds|server: what the long tests of the chart need, built once and kept until the versions change.
# crds: the schemas of the kinds that operators bring, from their typed APIs (a minute).
# server: a real API server of Kubernetes with its etcd (3 to 6 minutes on two cores, and 3 GB for that time).
set -euo pipefail
KUBERNETES=1.36.3 PROMETHEUS=v0.94.0 KEDA=v2.20.2 ROUTES=v1.4.0
MONITORING=github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1
SCALING=github.com/kedacore/keda/v2/apis/keda/v1alpha1
ROUTING=sigs.k8s.io/gateway-api/apis/v1

folder=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export GOPATH=$work/go GOCACHE=$work/cache GOFLAGS=-mod=mod

crds() {
    go mod init example.invalid/crds
    go get "$MONITORING@$PROMETHEUS" "$SCALING@$KEDA" "$ROUTING@$ROUTES" sigs.k8s.io/controller-tools/cmd/controller-gen
    go build -o "$work/controller-gen" sigs.k8s.io/controller-tools/cmd/controller-gen
    "$work/controller-gen" crd:crdVersions=v1,ignoreUnexportedFields=true paths="$MONITORING" paths="$SCALING" \
        output:crd:dir="$work/crds"
    cp "$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)"/config/crd/standard/*_httproutes.yaml "$work/crds/"
    chmod u+w "$work"/crds/*
    mv "$work/crds" "$folder/crds-$PROMETHEUS-$KEDA-$ROUTES"
}

server() {
    apt-get download -q etcd-server
    dpkg -x etcd-server_*.deb etcd
    # Kubernetes' own modules lie in its repository: its go.mod names them, and the registry has each by itself.
    where='import json, sys; print(json.load(sys.stdin)["Dir"])'
    kubernetes=$(go mod download -json "k8s.io/kubernetes@v$KUBERNETES" | python3 -c "$where")
    go mod init example.invalid/kubernetes
    grep -oE 'k8s\.io/[a-z0-9-]+ (=> \./staging|v0\.0\.0$)' "$kubernetes/go.mod" | cut -d ' ' -f 1 | sort -u |
        while read -r module; do go mod edit -replace="$module=$module@v0.${KUBERNETES#1.}"; done
    go mod edit -require="k8s.io/kubernetes@v$KUBERNETES"
    version="-X k8s.io/component-base/version.gitVersion=v$KUBERNETES" # the chart asks for it
    go build -trimpath -ldflags "-s -w $version" -o "$work/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
    mkdir "$work/server"
    mv "$work/etcd/usr/bin/etcd" "$work/kube-apiserver" "$work/server/"
    mv "$work/server" "$folder/server-$KUBERNETES"
}

case $2 in
crds) made=$folder/crds-$PROMETHEUS-$KEDA-$ROUTES ;;
server) made=$folder/server-$KUBERNETES ;;
*) exit 2 ;;
esac
if [ ! -d "$made" ]; then
    cd "$work"
    "$2" >&2
fi
echo "$made"
