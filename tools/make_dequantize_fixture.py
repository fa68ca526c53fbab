#!/usr/bin/env python3
"""Writes tests/fixtures/dequantize.bin: random blocks of every stored format with the values that the Python package
`gguf` makes of them. Made with gguf 0.19. Format, little endian, repeated: type, num_bytes, num_values (uint32), the
bytes, the values (float32)."""
import pathlib
import struct

import gguf
import numpy as np

TYPES = "F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS".split()
F16_FIELDS = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,),
              "Q6_K": (208,)}
NUM_BLOCKS = 4


def blocks(name, block_bytes, random):
    if name == "F32":
        return random.standard_normal(256).astype(np.float32).view(np.uint8).reshape(1, -1)
    if name in ("F16", "BF16"):
        bits = random.integers(0, 1 << 16, 256, dtype=np.uint16)
        exponent = 0x7C00 if name == "F16" else 0x7F80
        bits[(bits & exponent) == exponent] &= ~np.uint16(0x4000)  # no infinities, no NaNs
        return bits.view(np.uint8).reshape(1, -1)
    data = random.integers(0, 256, (NUM_BLOCKS, block_bytes), dtype=np.uint8)
    scales = [0.0, 3e-6, -0.37, 1.9]  # a zero, a subnormal, both signs
    for at in F16_FIELDS.get(name, (0,)):
        numbers = (np.array(scales) * random.uniform(0.5, 1.5, NUM_BLOCKS)).astype(np.float16)
        data[:, at:at + 2] = numbers.view(np.uint8).reshape(-1, 2)
    return data.reshape(1, -1)


def main():
    random = np.random.default_rng(20240607)
    out = bytearray()
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        data = blocks(name, gguf.GGML_QUANT_SIZES[kind][1], random)
        values = gguf.quants.dequantize(data.view(np.float32) if name == "F32" else data, kind)
        values = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
        out += struct.pack("<3I", int(kind), data.size, values.size) + data.tobytes() + values.tobytes()
    path = pathlib.Path(__file__).parent.parent / "tests" / "fixtures" / "dequantize.bin"
    path.write_bytes(out)
    print(f"{path.name}: {len(out)} bytes")


if __name__ == "__main__":
    main()
