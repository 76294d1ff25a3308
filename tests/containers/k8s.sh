#!/usr/bin/env bash
# Renders k8s/ and judges it by the Kubernetes schemas (PyPI kubernetes-validate); runs nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet kubernetes-validate
if command -v kubectl >/dev/null; then
  kubectl kustomize k8s >"$work/rendered.yaml"
else
  cat k8s/namespace.yaml <(echo ---) k8s/aip.yaml >"$work/rendered.yaml"
fi
"$work/venv/bin/kubernetes-validate" --strict "$work/rendered.yaml"
