"""What commands import: the floors themselves are contracts that `lint-imports` holds."""

import subprocess
import sys
from pathlib import Path

TORCH = {"torch", "diffusers", "safetensors"}


def test_encoding_and_plain_decoding_do_without_torch(clip: Path, tmp_path: Path) -> None:
    code = f"""
import sys
import gsvc
tools = gsvc.Tools(segmentation=False, pose=False)
gsvc.encode({str(clip)!r}, "it.gsv", settings=gsvc.EncoderSettings(tools=tools, preset="fast"))
gsvc.info("it.gsv")
gsvc.decode("it.gsv", "it.mkv", settings=gsvc.DecoderSettings(steps=0))
print(*sorted({TORCH!r} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True
    )
    assert done.stdout.strip() == b""
