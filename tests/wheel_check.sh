#!/usr/bin/env bash
# The wheel, made from the source distribution, without extras, in an empty environment outside the
# checkout: a clip there and back.
# Usage: wheel_check.sh [PYTHON...]: the first one builds, each of them installs (python3).
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- python3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

install() { # PYTHON ENVIRONMENT PACKAGE
    "$1" -m venv "$2"
    "$2/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$3"
}

install "$1" "$folder/builder" build
"$folder/builder/bin/python" -m build --outdir "$folder" >/dev/null
unset PYTHONPATH
cd "$folder"

run() { echo "\$ gsvc $*"; env/bin/gsvc "$@"; }

try() { # PYTHON
    echo "== $("$1" --version)"
    rm -rf env ./*.gsv ./*.mp4
    install "$1" env ./*.whl
    env/bin/python - <<'PYTHON'
import sys
from importlib.util import find_spec

import gsvc

assert "/env/" in gsvc.__file__, gsvc.__file__
assert not [name for name in ("torch", "diffusers", "safetensors") if find_spec(name)]
with open("clip.y4m", "wb") as file:
    file.write(b"YUV4MPEG2 W96 H64 F25:1 Ip C420jpeg\n")
    for frame in range(12):
        luma = bytes((2 * x + 3 * y + 4 * frame) % 200 + 20 for y in range(64) for x in range(96))
        file.write(b"FRAME\n" + luma + bytes([128]) * (96 * 64 // 2))
PYTHON
    run encode clip.y4m -o clip.gsv
    run info clip.gsv | sed -n 1,4p
    run decode clip.gsv -o back.mp4
    test -s back.mp4
    run encode back.mp4 -o again.gsv --level 3 --frames 4
    test -s again.gsv
    test -s env/share/man/man1/gsvc.1
    env/bin/gsvc completion bash | cmp - env/share/bash-completion/completions/gsvc
    refuse_compact
}

refuse_compact() { # in one line that names the extra
    echo '$ gsvc decode clip.gsv -o refined.mp4 --backend compact'
    if message=$(env/bin/gsvc decode clip.gsv -o refined.mp4 --backend compact 2>&1); then
        echo "refining without its extra should fail"
        exit 1
    fi
    echo "$message"
    [[ $message == "gsvc: error: "*"pip install 'gsvc[refine]'"* ]]
    [[ $message != *$'\n'* && ! -e refined.mp4 ]]
}

for python in "$@"; do
    try "$python"
done
echo "the wheel works"
