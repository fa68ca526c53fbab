"""Random targets of every family."""
import dataclasses

from training.reference import dense, gated_delta, lfm2, olmo, targets

MODEL_TYPES = (*targets.ARCHITECTURES, *lfm2.ARCHITECTURES, *gated_delta.ARCHITECTURES, *dense.ARCHITECTURES, *olmo.ARCHITECTURES)


def shape_of(model_type, **changes):
    """`changes`: fields that differ from the family's small shape."""
    if model_type in lfm2.ARCHITECTURES:
        return dataclasses.replace(lfm2.Lfm2Shape(model_type), **changes)
    if model_type in gated_delta.ARCHITECTURES:
        return dataclasses.replace(gated_delta.GatedDeltaShape(model_type), **changes)
    if model_type in dense.ARCHITECTURES:
        return dataclasses.replace(dense.DenseShape(model_type), **changes)
    if model_type in olmo.ARCHITECTURES:
        return dataclasses.replace(olmo.OlmoShape(model_type), **changes)
    return dataclasses.replace(targets.TargetShape(model_type), **changes)


def random_target(shape, seed):
    if isinstance(shape, lfm2.Lfm2Shape):
        return lfm2.random_lfm2(shape, seed)
    if isinstance(shape, gated_delta.GatedDeltaShape):
        return gated_delta.random_gated_delta(shape, seed)
    if isinstance(shape, dense.DenseShape):
        return dense.random_dense(shape, seed)
    if isinstance(shape, olmo.OlmoShape):
        return olmo.random_olmo(shape, seed)
    return targets.random_target(shape, seed)
