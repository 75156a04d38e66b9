"""Dependencies point one way: who may import whom, and who does without torch."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gsvc

ROOT = Path(gsvc.__file__).parent

FACADE = {
    "gsvc.codec.asyncio",
    "gsvc.codec.command.main",
    "gsvc.codec.command.commands",
    "gsvc.decoders.concealment",
    "gsvc.codec.decoder",
    "gsvc.codec.command.doctor",
    "gsvc.codec.encoder",
    "gsvc.codec.files",
    "gsvc.codec.command.progress",
    "gsvc.decoders.reconstruction",
    "gsvc.codec.stream.index",
    "gsvc.codec.stream.info",
}
"""The part of codec/ that people hold; the rest is what a stream is."""

PERMITTED = {
    "data": {"data"},
    "datasets": {"data", "datasets"},
    "decoders": {"data", "decoders"},
    "encoders": {"data", "datasets", "decoders", "encoders"},
    "façade": {"data", "datasets", "decoders", "encoders", "façade"},
    "eval": {"data", "datasets", "decoders", "encoders", "façade", "eval"},
}

OFFLINE = "gsvc.decoders.training."
"""Training makes its pairs with the real encoder; nothing that decodes may import these."""


def layer(module: str) -> str:
    folder = module.split(".")[1]
    if folder == "codec":
        is_facade = module in FACADE or module.startswith("gsvc.codec.network.")
        return "façade" if is_facade else "data"
    return folder


def modules() -> dict[str, Path]:
    found = {}
    for folder in ("codec", "datasets", "decoders", "encoders", "eval"):
        for path in sorted((ROOT / folder).glob("*.py")):
            if path.stem != "__init__":
                found[f"gsvc.{folder}.{path.stem}"] = path
    for folder, inner in (("codec", "transport"), ("decoders", "training")):
        for path in sorted((ROOT / folder / inner).glob("*.py")):
            if path.stem != "__init__":
                found[f"gsvc.{folder}.{inner}.{path.stem}"] = path
    return found


def imports(path: Path, *, at_start: bool) -> Iterator[str]:
    """Modules that a file imports: when it is loaded itself, or ever."""
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif at_start and isinstance(node, ast.FunctionDef | ast.If):
            continue
        pending += ast.iter_child_nodes(node)


def own_imports(path: Path, *, at_start: bool = False) -> set[str]:
    return set(imports(path, at_start=at_start)) & set(modules())


@pytest.mark.parametrize("module", modules())
def test_dependencies_point_one_way(module: str) -> None:
    if module.startswith(OFFLINE):
        return
    for other in own_imports(modules()[module]):
        assert layer(other) in PERMITTED[layer(module)], f"{module} imports {other}"
        is_command = module == "gsvc.codec.command.commands"
        assert is_command or not other.startswith(OFFLINE), f"{module} imports {other}"


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {name: own_imports(path, at_start=True) for name, path in modules().items()}
    while leaves := [name for name, needed in graph.items() if not needed & set(graph)]:
        for name in leaves:
            del graph[name]
    assert not graph


def test_encoding_and_plain_decoding_do_without_torch(clip: Path, tmp_path: Path) -> None:
    code = f"""
import sys
import gsvc
tools = gsvc.Tools(segmentation=False, pose=False)
gsvc.encode({str(clip)!r}, "it.gsv", settings=gsvc.EncoderSettings(tools=tools, preset="fast"))
gsvc.info("it.gsv")
gsvc.decode("it.gsv", "it.mkv", settings=gsvc.DecoderSettings(steps=0))
import gsvc.codec.command.main, gsvc.codec.command.commands, gsvc.encoders.layers.pose, gsvc.encoders.layers.segmentation
print(*sorted({{"torch", "diffusers", "safetensors"}} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True
    )
    assert done.stdout.strip() == b""
