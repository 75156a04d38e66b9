#!/usr/bin/env bash
# The wheel alone, without extras, in an empty environment outside the checkout: a clip there and back.
# Usage: wheel_check.sh [PYTHON], a Python that has hatchling.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(command -v "${1:-python3}")
[[ $python == /* ]] || python=$PWD/$python
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$python" -m hatchling build -t wheel -d "$folder" >/dev/null
unset PYTHONPATH
cd "$folder"
"$python" -m venv env
env/bin/python -m pip install --quiet --disable-pip-version-check ./*.whl
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

run() { echo "\$ gsvc $*"; env/bin/gsvc "$@"; }
run encode clip.y4m -o clip.gsv
run info clip.gsv | sed -n 1,4p
run decode clip.gsv -o back.mp4 --steps 0
run encode back.mp4 -o again.gsv --level 3 --frames 4
test -s again.gsv

echo '$ gsvc decode clip.gsv -o refined.mp4 --steps 1'
if message=$(env/bin/gsvc decode clip.gsv -o refined.mp4 --steps 1 2>&1); then
    echo "refining without its extra should fail"
    exit 1
fi
echo "$message"
[[ $message == "gsvc: error: "*"pip install 'gsvc[refine]'"* && $message != *$'\n'* && ! -e refined.mp4 ]]
echo "the wheel works"
