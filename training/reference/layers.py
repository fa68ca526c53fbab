"""Pieces that targets and heads share. R rows, C cached rows, A query heads, K key-value heads, D head dimension."""
import torch


def rms_norm(x, weight, epsilon):
    """x [.., H] scaled to a root mean square of 1, times weight [H]."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def rotate(x, positions, theta, num_rotated=None):
    """Rotary embedding of x [R, A, D] at positions [R]: of its first `num_rotated` values (default: all), element i is
    paired with the one half of them further."""
    half = (num_rotated or x.shape[-1]) // 2
    frequencies = float(theta) ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.to(torch.float64)[:, None] * frequencies
    cos, sin = angles.cos().float()[:, None], angles.sin().float()[:, None]
    first, second, others = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin, others], dim=-1)


def attend(query, key, value, visible, scale):
    """Attention of query [R, A, D] over key and value [C, K, D] where visible [R, C]; returns [R, A * D]."""
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    scores = torch.einsum("rad,cad->arc", query, key) * scale
    weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
    return torch.einsum("arc,cad->rad", weights, value).flatten(1)


def causal(num_rows):
    """[R, R]: each row sees itself and the rows before it."""
    return torch.ones(num_rows, num_rows, dtype=torch.bool).tril()
