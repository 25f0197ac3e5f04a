"""Draw the README's moving picture: a pool under changing power with its jobs.

Plays one episode of ``ResourcePoolGreen-10`` with the policy that ships for it and writes what
``env.render()`` shows at each time step:

    python tools/draw_pool_gif.py docs/images/pool.gif
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from PIL import Image

import greendc  # noqa: F401 (registers the environments)
from sb3_greendc import load_pretrained
from sb3_greendc.runs.pretrained import release_for

ENV = "ResourcePoolGreen-10"
LOAD = 1.0
MILLISECONDS = 220
"""How long a frame stands."""


def frames(seed: int, first: int, count: int) -> Iterator[NDArray[np.uint8]]:
    """Yield the picture of each time step ``first .. first + count - 1``."""
    env = gym.make(f"{ENV}-v0", render_mode="rgb_array", offered_load=LOAD, **release_for(ENV).choice)
    policy = load_pretrained(ENV)
    observation, _ = env.reset(seed=seed)
    step = 0
    while step < first + count:
        if step >= first:
            yield np.asarray(env.render())
        passed = 0
        while passed == 0:  # placements take no time
            action, _ = policy.predict(observation, deterministic=True)
            observation, _, _, _, info = env.step(action)
            passed = int(info["time_advanced"])
        step += passed
    env.close()


def write_gif(path: Path, pictures: Iterator[NDArray[np.uint8]], width: int, colors: int) -> None:
    """Write pictures ``(height, width, 3)`` as one endless GIF of ``width`` pixels."""
    small = [_shrink(Image.fromarray(picture), width) for picture in pictures]
    strip = Image.fromarray(np.concatenate([np.asarray(image) for image in small[::4]]))
    palette = strip.quantize(colors, dither=Image.Dither.NONE)  # of all jobs, not of the first frame's
    indexed = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in small]
    path.parent.mkdir(parents=True, exist_ok=True)
    indexed[0].save(
        path, save_all=True, append_images=indexed[1:], duration=MILLISECONDS, loop=0, optimize=True
    )


def _shrink(image: Image.Image, width: int) -> Image.Image:
    return image.resize((width, image.height * width // image.width), Image.Resampling.LANCZOS)


def build_parser() -> argparse.ArgumentParser:
    """Return the command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path, help="the GIF to write")
    parser.add_argument("--seed", type=int, default=6, help="seed of the episode (default: %(default)s)")
    parser.add_argument("--first", type=int, default=54, help="first step (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=48, help="number of frames (default: %(default)s)")
    parser.add_argument("--width", type=int, default=800, help="pixels (default: %(default)s)")
    parser.add_argument("--colors", type=int, default=128, help="size of the palette (default: %(default)s)")
    return parser


def main() -> None:
    """Draw the picture."""
    args = build_parser().parse_args()
    write_gif(args.path, frames(args.seed, args.first, args.steps), args.width, args.colors)
    print(f"wrote {args.path}, {args.path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
