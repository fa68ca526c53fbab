"""Frequencies of rotary embeddings whose contexts were extended, from the definitions in the papers."""
import math

import torch


def plain(theta, num_rotated):
    return float(theta) ** (-torch.arange(0, num_rotated, 2, dtype=torch.float64) / num_rotated)


def yarn(theta, num_rotated, factor, original, fast=32.0, slow=1.0, truncate=True):
    """Pairs that rotate more than `fast` times within the original context stay, those of fewer than `slow` are divided by the factor, with a ramp between (2309.00071)."""
    def pair(rotations):
        return num_rotated * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    first, last = pair(fast), pair(slow)
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, num_rotated - 1)
    length = last - first if last != first else 0.001
    divided = ((torch.arange(num_rotated // 2, dtype=torch.float64) - first) / length).clamp(0, 1)
    frequencies = plain(theta, num_rotated)
    return frequencies * (1 - divided) + frequencies / factor * divided


def magnitude(factor, weight=1.0):
    return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0


def rotate_by(x, positions, frequencies, factor=1.0):
    """x [R, A, D] with its first values rotated and multiplied by `factor`, which may be [R]: element i is paired with the one half of them further."""
    half = len(frequencies)
    angles = positions.to(torch.float64)[:, None] * frequencies
    factor = torch.as_tensor(factor, dtype=torch.float64).reshape(-1, 1)
    cos, sin = (angles.cos() * factor).float()[:, None], (angles.sin() * factor).float()[:, None]
    first, second, others = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, others], dim=-1)
