"""References in PyTorch, float32, written from the equations: what the engine's learned drafters must compute.

    targets.py        small random targets: their directories, hidden states after each layer, logits
    layers.py, modules.py  pieces that targets and heads share
    drafting.py       chains, static and dynamic trees, with the margin of every choice
    row_drafting.py   ... of heads whose rows attend to each other: EAGLE, MTP
    block_drafting.py  ... of heads that fill a block of slots: DFlash, DSpark
    path_drafting.py  ... of the others
    eagle.py, head_shape.py, head_files.py  EAGLE-1, EAGLE-2 and EAGLE-3, and their published directories
    mtp.py, medusa.py, blockwise.py, hydra.py, mlp_speculator.py, dflash.py, dspark.py  the others: module, directory
    layouts.py        directories of heads in general
    made_heads.py     random heads of every layout
    mutants.py        heads with one mistake, which a comparison must catch

None of them knows the engine. tests/e2e/head_parity.py compares the two. PyTorch 1.13 is enough.
"""
