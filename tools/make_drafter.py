#!/usr/bin/env python3
"""Makes a drafter for speculative decoding from the model that it drafts for.

A drafter must have the target's vocabulary and be cheaper to run. Made from the target itself it needs no training:

  make_drafter.py target.gguf drafter.gguf                 a plain copy: always agrees, saves nothing (for tests)
  make_drafter.py target.gguf drafter.gguf --layers 12     its first 12 layers: cheaper, agrees less
  make_drafter.py target.gguf drafter.gguf --type q2_k     its weights in 2.6 bits: smaller, mostly agrees

Both options can be combined. Norms, biases and the matrix that gives the logits (where it is tied, the embedding) keep
their type: errors in the latter cost most of the agreement. Rows of a matrix must be whole blocks of its
type: if they are not (576 columns are not a multiple of Q2_K's 256), the matrix becomes Q4_0, and if rows are not a
multiple of 32 either, it keeps its type. Input and output are GGUF files of one part.
"""

import argparse
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as TensorType

FALLBACK = TensorType.Q4_0
TARGET_TYPES = {
    "q2_k": TensorType.Q2_K,
    "q4_0": TensorType.Q4_0,
    "q8_0": TensorType.Q8_0,
    "f16": TensorType.F16,
}
# general.file_type of a file that is mostly of a type.
FILE_TYPES = {"q2_k": 10, "q4_0": 2, "q8_0": 7, "f16": 1}
ALIGNMENT = 32
Q2_K_VALUES = 256
Q2_K_GROUP = 16


def fit_groups(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale and minimum of each group of 16 values: x is about scale * code - minimum, code 0 to 3.

    groups: [n, 16]. Returns two arrays of [n], neither negative. For several guesses of the step the codes are rounded
    and the best scale and minimum for these codes are found by least squares; the guess with the smallest error is used.
    """
    low = np.minimum(groups.min(axis=1), 0)
    high = np.maximum(groups.max(axis=1), 0)
    best_error = np.full(len(groups), np.inf, dtype=np.float32)
    best_scale = np.zeros(len(groups), dtype=np.float32)
    best_minimum = np.zeros(len(groups), dtype=np.float32)
    for shrink in np.linspace(0.55, 1.05, 11, dtype=np.float32):
        step = np.where(high > low, shrink * (high - low) / 3, 1)
        offset = -low * shrink
        codes = np.clip(np.rint((groups + offset[:, None]) / step[:, None]), 0, 3)
        code_mean = codes.mean(axis=1)
        value_mean = groups.mean(axis=1)
        variance = (codes * codes).mean(axis=1) - code_mean**2
        covariance = (codes * groups).mean(axis=1) - code_mean * value_mean
        scale = np.where(variance > 0, covariance / np.where(variance > 0, variance, 1), 0)
        minimum = scale * code_mean - value_mean
        # A minimum below 0 cannot be stored: then the line goes through 0.
        squares = (codes * codes).sum(axis=1)
        through_zero = np.where(squares > 0, (codes * groups).sum(axis=1) / np.where(squares > 0, squares, 1), 0)
        scale = np.maximum(np.where(minimum < 0, through_zero, scale), 0)
        minimum = np.maximum(minimum, 0)
        error = ((scale[:, None] * codes - minimum[:, None] - groups) ** 2).sum(axis=1)
        better = error < best_error
        best_error = np.where(better, error, best_error)
        best_scale = np.where(better, scale, best_scale)
        best_minimum = np.where(better, minimum, best_minimum)
    return best_scale, best_minimum


def to_four_bits(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 16 numbers of each row as one float16 factor times 0 to 15. values: [n, 16], not negative."""
    factor = (values.max(axis=1) / 15).astype(np.float16)
    divisor = factor.astype(np.float32)[:, None]
    codes = np.clip(np.rint(values / np.where(divisor > 0, divisor, 1)), 0, 15)
    return factor, np.where(divisor > 0, codes, 0).astype(np.uint8)


def quantize_q2_k(values: np.ndarray) -> np.ndarray:
    """Rows of float32 as Q2_K blocks: 16 bytes of group scales and minimums, 64 of codes, two float16 factors."""
    blocks = values.reshape(-1, Q2_K_VALUES // Q2_K_GROUP, Q2_K_GROUP).astype(np.float32)
    scale, minimum = fit_groups(blocks.reshape(-1, Q2_K_GROUP))
    scale_factor, scale_codes = to_four_bits(scale.reshape(len(blocks), -1))
    minimum_factor, minimum_codes = to_four_bits(minimum.reshape(len(blocks), -1))
    # The codes are chosen for the stored scales, not for the exact ones.
    stored_scale = (scale_factor.astype(np.float32)[:, None] * scale_codes)[:, :, None]
    stored_minimum = (minimum_factor.astype(np.float32)[:, None] * minimum_codes)[:, :, None]
    codes = np.rint((blocks + stored_minimum) / np.where(stored_scale > 0, stored_scale, 1))
    codes = np.where(stored_scale > 0, np.clip(codes, 0, 3), 0).astype(np.uint8)
    # Each half of a block packs its 4 runs of 32 codes into the 4 bit pairs of 32 bytes.
    runs = codes.reshape(len(blocks), 2, 4, 32)
    packed = runs[:, :, 0] | runs[:, :, 1] << 2 | runs[:, :, 2] << 4 | runs[:, :, 3] << 6
    return np.concatenate(
        [
            scale_codes | minimum_codes << 4,
            packed.reshape(len(blocks), -1),
            scale_factor[:, None].view(np.uint8),
            minimum_factor[:, None].view(np.uint8),
        ],
        axis=1,
    )


def type_for(num_columns: int, wanted: TensorType, present: TensorType) -> TensorType:
    """The type a matrix gets: `wanted` if its rows are whole blocks of it, else the fallback, else what it has."""
    for candidate in (wanted, FALLBACK):
        if num_columns % gguf.GGML_QUANT_SIZES[candidate][0] == 0:
            return candidate
    return present


def converted(tensor: gguf.ReaderTensor, wanted: TensorType) -> tuple[TensorType, bytes]:
    """Type and bytes of a matrix in the drafter."""
    shape = [int(dim) for dim in tensor.shape]  # values of a row first
    target = type_for(shape[0], wanted, tensor.tensor_type)
    if target == tensor.tensor_type:
        return target, tensor.data.tobytes()
    values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape[1], shape[0])
    rows = max(1, (1 << 22) // shape[0])  # so many at a time: the fit needs several copies of them
    quantize = quantize_q2_k if target == TensorType.Q2_K else lambda part: gguf.quants.quantize(part, target)
    return target, b"".join(quantize(values[at : at + rows]).tobytes() for at in range(0, shape[1], rows))


def scalar_field(reader: gguf.GGUFReader, key: str):
    field = reader.get_field(key)
    return None if field is None else field.contents()


def edited_payload(field: gguf.ReaderField, architecture: str, num_layers: int, layers: int, file_type: int | None) -> bytes:
    """The bytes after a key's name in the drafter's file: type and value."""
    value_type = gguf.GGUFValueType
    if field.name == f"{architecture}.block_count":
        return struct.pack("<II", value_type.UINT32, layers)
    if field.name == "general.file_type" and file_type is not None:
        return struct.pack("<II", value_type.UINT32, file_type)
    is_array = field.types[0] == value_type.ARRAY
    # parts: name length, name, type, then the value; of an array also element type, count and elements.
    if is_array and field.name.startswith(architecture + ".") and len(field.data) == num_layers:
        elements = b"".join(field.parts[index].tobytes() for index in field.data[:layers])
        return struct.pack("<IIQ", value_type.ARRAY, field.types[1], layers) + elements
    return b"".join(part.tobytes() for part in field.parts[2:])


def belongs_to_layer(name: str, first_dropped: int) -> bool:
    parts = name.split(".")
    return parts[0] == "blk" and int(parts[1]) >= first_dropped


def padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % ALIGNMENT)


def write_drafter(source: Path, target: Path, layers: int | None, type_name: str | None) -> None:
    reader = gguf.GGUFReader(source)
    architecture = scalar_field(reader, "general.architecture")
    num_layers = scalar_field(reader, f"{architecture}.block_count")
    if num_layers is None:
        raise ValueError(f"{source}: has no {architecture}.block_count")
    if scalar_field(reader, "split.count") not in (None, 0, 1):
        raise ValueError(f"{source}: is one part of a split model")
    layers = num_layers if layers is None else layers
    if not 1 <= layers <= num_layers:
        raise ValueError(f"--layers must be 1 to {num_layers}, is {layers}")

    wanted = TARGET_TYPES[type_name] if type_name else None
    file_type = FILE_TYPES[type_name] if type_name else None
    # Names that begin with "GGUF." are the reader's own; the alignment is ours below.
    fields = [f for f in reader.fields.values() if not f.name.startswith("GGUF.") and f.name != "general.alignment"]
    tensors = [t for t in reader.tensors if not belongs_to_layer(t.name, layers)]
    head = "output.weight" if any(t.name == "output.weight" for t in tensors) else "token_embd.weight"

    header = bytearray(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(fields)))
    for field in fields:
        name = field.name.encode()
        header += struct.pack("<Q", len(name)) + name
        header += edited_payload(field, architecture, num_layers, layers, file_type)
    chunks = []
    offset = 0
    for tensor in tensors:
        if wanted is None or tensor.name == head or len(tensor.shape) != 2:
            tensor_type, data = tensor.tensor_type, tensor.data.tobytes()
        else:
            tensor_type, data = converted(tensor, wanted)
        name = tensor.name.encode()
        header += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(tensor.shape))
        header += struct.pack(f"<{len(tensor.shape)}Q", *(int(dim) for dim in tensor.shape))
        header += struct.pack("<IQ", tensor_type, offset)
        chunks.append(padded(data))
        offset += len(chunks[-1])

    # The file is first written under another name, so that a file with the final name is always complete.
    partial = target.with_name(target.name + ".partial")
    with open(partial, "wb") as out:
        out.write(padded(bytes(header)))
        out.writelines(chunks)
    partial.replace(target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="GGUF file of the target model")
    parser.add_argument("drafter", type=Path, help="GGUF file to write")
    parser.add_argument("--layers", type=int, metavar="N", help="keep the first N layers (default: all)")
    parser.add_argument("--type", choices=sorted(TARGET_TYPES), help="re-quantise matrices (default: keep their types)")
    arguments = parser.parse_args()
    try:
        write_drafter(arguments.source, arguments.drafter, arguments.layers, arguments.type)
    except (ValueError, OSError) as problem:
        print(f"make_drafter: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
