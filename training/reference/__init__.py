"""References in PyTorch, float32, written from the equations: what the engine's learned drafters must compute.

    targets.py     small random targets: their directories, hidden states after each layer, logits
    head_shape.py  the numbers of an EAGLE head, and where its features come from
    eagle.py       the heads of EAGLE-1, EAGLE-2 and EAGLE-3 as torch modules
    head_files.py  their published directories, written and read
    drafting.py    greedy chains and EAGLE-2 trees, with the margin of every choice
    made_heads.py  random heads of every dialect, and the mutants that a comparison must catch

None of them knows the engine. tests/e2e/head_parity.py compares the two.
"""
