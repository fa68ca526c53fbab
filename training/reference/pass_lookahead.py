"""PaSS: look-ahead embeddings (Monea et al. 2023). docs/drafters.md has the layout, which is this project's own."""
from training.reference import layouts
from training.reference.lookahead_rows import RowsHead, RowsShape


def stored_name(_name):
    return "lookahead.weight"


def save(head, directory, _target):
    layouts.write(directory, {}, layouts.published(head, stored_name))


def load(directory, target):
    _, tensors = layouts.read(directory)
    shape = RowsShape(taps=(target.shape.num_hidden_layers,), vocab_size=target.shape.vocab_size,
                      hidden_size=target.shape.hidden_size, num_rows=len(tensors["lookahead.weight"]))
    return layouts.fill(RowsHead(shape), tensors, stored_name).borrow(target)
