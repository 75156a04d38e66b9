"""SparkVSR: one step of a CogVideoX transformer from the rendering and references beside it.

Written from what its authors publish: the latents of the video and of references, each repeated to
four frames at `index // 4`, are channels side by side; the network is asked once, at time 399, and
the scheduler's velocity gives the latents of the result.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsvc.decoders.keyframes.pretrained import pretrained
from gsvc.decoders.keyframes.pretrained.pretrained import pipes, torch

_TIME = 399
_GROUP = 4  # frames that a latent stands for
_OFS = 2.0  # the embedding that CogVideoX 1.5 image to video wants besides the time


class SparkVsrBackend(pretrained.PretrainedWindows):
    """Parts of `CogVideoXImageToVideoPipeline` under a forward of its own."""

    grid, exact, multiple = 8, True, 16
    most_steps = 1

    def _drawn(
        self, pipeline: Any, window: pretrained.PretrainedWindow, steps: int, seed: int
    ) -> NDArray[np.uint8]:
        vae, noise = pipeline.vae, pipes.noise_from(seed)
        seen = pipes.video_tensor(window.frames).to(self.device, vae.dtype)
        given = _encoded(vae, seen, noise)
        latents = torch.cat([given, _references(self, vae, window, given, noise)], 1)
        restored = self._one_step(pipeline, latents, given.shape[1])
        video = vae.decode(restored.to(vae.dtype) / vae.config.scaling_factor).sample
        return pipes.video_frames(video)

    def _one_step(self, pipeline: Any, latents: "torch.Tensor", channels: int) -> "torch.Tensor":
        """`latents` (1, 2C, F, h, w) -> restored ones, (1, C, F, h, w)."""
        config = pipeline.transformer.config
        ahead = -latents.shape[2] % (config.patch_size_t or 1)
        padded = torch.cat([latents[:, :, :1]] * ahead + [latents], 2).transpose(1, 2)
        time = torch.full((1,), _TIME, dtype=torch.long, device=padded.device)
        foretold = pipeline.transformer(
            hidden_states=padded.to(pipeline.transformer.dtype),
            encoder_hidden_states=self._prompt(pipeline)["prompt_embeds"],
            timestep=time,
            ofs=torch.full((1,), _OFS, device=padded.device) if config.ofs_embed_dim else None,
            image_rotary_emb=_places(config, padded),
            return_dict=False,
        )[0]
        velocity: torch.Tensor = pipeline.scheduler.get_velocity(
            foretold[:, :, :channels].float(), padded[:, :, :channels].float(), time
        )
        return velocity[:, ahead:].transpose(1, 2)


def _places(config: Any, latents: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor] | None":
    """Rotary embeddings of the tokens of `latents`, (1, F, 2C, h, w). Not the pipeline's own: they
    end at the size of its training, which 4K exceeds."""
    from diffusers.models.embeddings import get_3d_rotary_pos_embed

    if not config.use_rotary_positional_embeddings:
        return None
    grid = latents.shape[3] // config.patch_size, latents.shape[4] // config.patch_size
    trained = config.sample_height // config.patch_size, config.sample_width // config.patch_size
    places: tuple[torch.Tensor, torch.Tensor] = get_3d_rotary_pos_embed(
        embed_dim=config.attention_head_dim,
        crops_coords=None,
        grid_size=grid,
        temporal_size=-(-latents.shape[1] // (config.patch_size_t or 1)),
        grid_type="slice",
        max_size=(max(grid[0], trained[0]), max(grid[1], trained[1])),
        device=latents.device,
    )
    return places


def _encoded(vae: Any, video: "torch.Tensor", noise: "torch.Generator") -> "torch.Tensor":
    latents: torch.Tensor = vae.encode(video).latent_dist.sample(noise) * vae.config.scaling_factor
    return latents


def _references(
    backend: SparkVsrBackend,
    vae: Any,
    window: pretrained.PretrainedWindow,
    like: "torch.Tensor",
    noise: "torch.Generator",
) -> "torch.Tensor":
    """Latents of the keyframes where they belong, zeros elsewhere: of `like`'s shape."""
    references = torch.zeros_like(like)
    for at, picture in sorted(window.keys.items()):
        still = np.repeat(picture[None], _GROUP, 0)
        encoded = _encoded(vae, pipes.video_tensor(still).to(backend.device, vae.dtype), noise)
        references[:, :, at // _GROUP] = encoded[:, :, 0]
    return references
