"""The key pictures of a group: as they go into the coder, coded, decoded and shown.

How often they are coded and decoded, with look-ahead:

- Each trial of the search codes its own with a fast preset and decodes their luma (`trials.py`).
  The chosen trial's are decoded once more for pre-emphasis: keeping those of all would take much
  memory.
- They are coded with the preset's own settings, and again for each step of the quantiser that
  brings them near to what the scaffold is likely to leave of the budget (`fitting.py`).
- They are decoded for texture gains and the scaffold, which are chosen by what the decoder shows.
- They are coded again for each step that fits them to what the scaffold does leave, and to the
  limits on a second and on a packet (`packer.py`). The scaffold stays; the decoder corrects for it.
- If that changed them, a group that goes on in another is decoded once more, for its last picture.

Without look-ahead each is coded and decoded once, and again only where it exceeds a packet.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property, partial

from gsvc.codec.frames import Picture
from gsvc.codec.scaffold.layers.texture import TEXTURE, Texture
from gsvc.codec.stream.group import picture_bits
from gsvc.decoders.pictures import decode_pictures
from gsvc.decoders.texture import raise_texture
from gsvc.encoders.distortion import Reference
from gsvc.encoders.group_coder import Recipe
from gsvc.encoders.layers.texture import choose_texture
from gsvc.encoders.pictures import encode_pictures
from gsvc.encoders.plan import Plan


class KeyPictures:
    """Those that a group pays for; coded and decoded when first asked for."""

    def __init__(
        self,
        plan: Plan,
        prepared: Sequence[Picture],
        recipe: Recipe,
        textures: Sequence[Texture | None] = (),
    ) -> None:
        """`plan`: without the next group's key picture; `prepared`: the pictures to code, RGB uint8
        (H, W, 3); `textures`: what is raised in each when it is shown."""
        self.plan, self.recipe, self.textures = plan, recipe, textures
        self._prepared = prepared

    def recoded(self, *, crf: float, scale: int | None = None) -> "KeyPictures":
        """The same at another quantiser and size."""
        plan = replace(self.plan, crf=crf, scale=scale or self.plan.scale)
        return KeyPictures(plan, self._prepared, self.recipe, self.textures)

    @cached_property
    def units(self) -> list[bytes]:
        """Their temporal units."""
        return encode_pictures(
            self._prepared,
            size=self.recipe.header.geometry.coded_size(self.plan.scale),
            crf=self.plan.crf,
            color=self.recipe.header.format.color,
            preset=self.recipe.effort.preset_of(self.plan.keys),
            visual=self.recipe.tune.visual,
            threads=1 if self.recipe.lean else 2,
        )

    @cached_property
    def bits(self) -> float:
        """What they take in packets, without framing."""
        return picture_bits(self.units)

    @cached_property
    def decoded(self) -> list[Picture]:
        """As the decoder has them before texture is raised."""
        color = self.recipe.header.format.color
        return decode_pictures(self.units, self.recipe.header.geometry, self.plan.scale, color)

    def choose_textures(
        self, references: Sequence[Reference], frames: int, lmbda: float, pool: Executor
    ) -> None:
        """Choose what is raised in each, for a group of `frames` frames; later codings keep it."""
        if TEXTURE.name not in self.recipe.header.tools:
            self.textures = [None] * len(self.decoded)
            return
        each, block = max(1.0, frames / len(self.decoded)), self.recipe.level.texture_log2
        choose = partial(choose_texture, block_log2=block, frames=each, lmbda=lmbda)
        self.textures = list(pool.map(choose, references, self.decoded))

    def shown(self, number: int) -> Picture:
        """One of them with its texture raised."""
        return raise_texture(self.decoded[number], self.textures[number])[0]
