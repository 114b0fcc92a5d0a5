#!/usr/bin/env bash
# Gradescope runs this once, when it builds the machine: a Python of its own, and what the checks need.
set -euo pipefail
root=${AUTOGRADER:-/autograder}

newest() { for version in 3.13 3.12 3.11; do command -v "python$version" && return; done; }
python=${PYTHON:-$(newest || true)}
if [ -z "$python" ]; then
    apt-get update -q && apt-get install -yq python3.11
    python=python3.11
fi
"$python" -c 'import ensurepip, venv' || { apt-get update -q && apt-get install -yq "${python##*/}-venv"; }

"$python" -m venv "$root/venv"
"$root/venv/bin/python" -m pip install --no-cache-dir --disable-pip-version-check -r "$root/source/requirements.txt"
chmod -R go= "$root/source" # a student's code runs as another user
