"""The empty prompt, read once by tiny text encoders, and again when another one is there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gsvc import MissingModelError
from gsvc.codec.weights.hub import PROMPT, hub_folder
from gsvc.codec.weights.model_files import sha256_of
from gsvc.decoders.keyframes.backends import load_refiner
from gsvc.decoders.keyframes.pretrained.diffusers_pipeline import embed_empty_prompt, load_prompt
from needs import need_package
from pretrained_windows import window_of
from tiny_models import MAKERS, TEXT, put_tiny

LENGTH = {"ltx": 256, "wan-v2v": 512, "sparkvsr": 226, "sd-turbo": 77}
"""Back end -> tokens of its prompt, as its pipeline asks for them."""


def texts(name: str) -> dict[str, Any]:
    """A text encoder and a tokenizer that knows one letter."""
    transformers = need_package("transformers")
    torch.manual_seed(2)
    if name == "sd-turbo":
        words = {"<|startoftext|>": 0, "<|endoftext|>": 1, "a</w>": 2}
        config = transformers.CLIPTextConfig(
            vocab_size=3,
            hidden_size=TEXT,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=1,
        )
        tokenizer = transformers.CLIPTokenizer(vocab=words, merges=[], model_max_length=77)
        return {"text_encoder": transformers.CLIPTextModel(config), "tokenizer": tokenizer}
    kind = "UMT5" if name.startswith("wan") else "T5"
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=8, d_model=TEXT, d_kv=4, d_ff=16, num_layers=1, num_heads=2
    )
    letters = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581a", -1.0)]
    tokenizer = transformers.T5TokenizerFast(vocab=letters, extra_ids=0)
    encoder = getattr(transformers, f"{kind}EncoderModel")(config)
    return {"text_encoder": encoder, "tokenizer": tokenizer}


@pytest.mark.parametrize("name", LENGTH)
def test_text_encoders_read_it_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSVC_CACHE", str(tmp_path))
    make: Callable[[], Any] = MAKERS[name]

    def whole() -> Any:
        pipeline = make()
        pipeline.register_modules(**texts(name))
        return pipeline

    monkeypatch.setitem(MAKERS, name, whole)
    folder = put_tiny(name)
    (folder / PROMPT).unlink()
    with pytest.raises(MissingModelError, match="lacks its embedding .*; run: gsvc models pull"):
        load_prompt(name, "cpu", torch.float32)
    embed_empty_prompt(name)
    said = load_prompt(name, "cpu", torch.float32)
    assert said["prompt_embeds"].shape == (1, LENGTH[name], TEXT)
    assert said["prompt_embeds"].dtype == torch.float32
    assert set(said) - {"prompt_embeds"} == ({"prompt_attention_mask"} if name == "ltx" else set())
    if name == "wan-v2v":
        refiner: Any = load_refiner(name)
        assert len(refiner.restore(*window_of(9), steps=1, seed=0)) == 9
        assert refiner._pipeline.text_encoder is None
    _change_text_encoder(name)
    with pytest.raises(MissingModelError, match="lacks its embedding"):
        load_prompt(name, "cpu", torch.float32)
    embed_empty_prompt(name)
    again = load_prompt(name, "cpu", torch.float32)["prompt_embeds"]
    assert not torch.equal(again, said["prompt_embeds"])


def _change_text_encoder(name: str) -> None:
    """Another one is there, as after a pull of another commit."""
    from safetensors.torch import load_file, save_file

    (weights,) = (hub_folder(name) / "text_encoder").glob("*.safetensors")
    save_file(
        {key: value + 0.5 for key, value in load_file(weights).items()}, weights, {"format": "pt"}
    )
    manifest = hub_folder(name) / "gsvc.json"
    told = json.loads(manifest.read_text())
    size, digest = weights.stat().st_size, sha256_of(weights)
    told["files"][f"text_encoder/{weights.name}"] = [size, digest]
    manifest.write_text(json.dumps(told))
